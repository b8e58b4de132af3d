/** An id that one click copies, always in full, even if it is shortened on screen. */
import { UnstyledButton } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import { IconCheck, IconCopy } from '../icons.generated.ts';
import styles from './CopyId.module.css';

interface Props {
  id: string;
  /** Shows only the prefix and the end, because sortable ids share their beginning. */
  short?: boolean;
}

const tailLength = 6;

export const shortId = (id: string): string => {
  const underscore = id.indexOf('_');
  return id.length <= tailLength + underscore + 3 ? id : `${id.slice(0, underscore + 1)}…${id.slice(-tailLength)}`;
};

export function CopyId({ id, short }: Props) {
  const clipboard = useClipboard({ timeout: 1500 });
  const label = short ? shortId(id) : id;
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
      aria-label={`${label}: ${clipboard.copied ? 'copied' : 'copy'} ${id}`}
    >
      <span className={styles.text}>{label}</span>
      <Icon size={13} className={styles.icon} data-copied={clipboard.copied || undefined} aria-hidden />
    </UnstyledButton>
  );
}
