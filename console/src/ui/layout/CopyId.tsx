/** An id that copies with one click, whole even if shortened. */
import { UnstyledButton } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import { IconCheck, IconCopy } from '@tabler/icons-react';
import styles from './CopyId.module.css';

interface Props {
  id: string;
  /** Shows `…` and the end: sortable ids share their beginning. */
  short?: boolean;
}

const tail = 6;

export const shortId = (id: string): string => {
  const mark = id.indexOf('_');
  return id.length <= tail + mark + 3 ? id : `${id.slice(0, mark + 1)}…${id.slice(-tail)}`;
};

export function CopyId({ id, short }: Props) {
  const clipboard = useClipboard({ timeout: 1500 });
  const shown = short ? shortId(id) : id;
  const Icon = clipboard.copied ? IconCheck : IconCopy;
  return (
    <UnstyledButton
      className={styles.id}
      data-short={short || undefined}
      onClick={(event) => {
        event.preventDefault();
        clipboard.copy(id);
      }}
      title={`${id} (click to copy)`}
      aria-label={`${shown}: ${clipboard.copied ? 'copied' : 'copy'} ${id}`}
    >
      <span className={styles.text}>{shown}</span>
      <Icon size={13} className={styles.icon} data-copied={clipboard.copied || undefined} aria-hidden />
    </UnstyledButton>
  );
}
