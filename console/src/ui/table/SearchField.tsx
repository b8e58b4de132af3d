/**
 * The search field of a page: `/` focuses it, Escape clears it, and the URL keeps its value.
 */
import { CloseButton, TextInput } from '@mantine/core';
import { useEffect, useState } from 'react';
import { IconSearch } from '../icons.generated.ts';
import { searchMark } from '../keyboard.ts';
import styles from './SearchField.module.css';

interface Props {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}

export function SearchField({ label, value, onChange }: Props) {
  const [typed, setTyped] = useState(value ?? '');
  // A link or the back button may change the URL without typing.
  useEffect(() => setTyped(value ?? ''), [value]);
  const set = (next: string) => {
    setTyped(next);
    onChange(next || undefined);
  };
  return (
    <TextInput
      {...searchMark}
      type="search"
      className={styles.search}
      placeholder={label}
      aria-label={label}
      value={typed}
      onChange={(event) => set(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        if (typed === '') event.currentTarget.blur();
        set('');
      }}
      leftSection={<IconSearch size={16} aria-hidden />}
      rightSection={
        typed ? (
          <CloseButton size="sm" onClick={() => set('')} aria-label="Clear the search" />
        ) : (
          <kbd className={styles.key} aria-hidden>
            /
          </kbd>
        )
      }
    />
  );
}
