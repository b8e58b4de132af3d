/** The box that takes any id and opens its page. */
import { TextInput } from '@mantine/core';
import { IconFocus2 } from '@tabler/icons-react';
import { useNavigate } from '@tanstack/react-router';
import { useRef, useState } from 'react';
import { findMark } from '../../ui/keyboard.ts';
import styles from './FindBox.module.css';

export function FindBox({ onGone }: { onGone: () => void }) {
  const [typed, setTyped] = useState('');
  const navigate = useNavigate();
  const field = useRef<HTMLInputElement>(null);
  return (
    <form
      className={styles.find}
      onSubmit={(event) => {
        event.preventDefault();
        const id = typed.trim();
        if (id === '') return;
        setTyped('');
        // On the next page, letters are shortcuts again.
        field.current?.blur();
        onGone();
        void navigate({ to: '/find', search: { id } });
      }}
    >
      <TextInput
        {...findMark}
        ref={field}
        size="xs"
        placeholder="Find any id"
        aria-label="Find any id or name"
        value={typed}
        onChange={(event) => setTyped(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Escape') return;
          if (typed === '') event.currentTarget.blur();
          setTyped('');
        }}
        leftSection={<IconFocus2 size={14} aria-hidden />}
        rightSection={
          <kbd className={styles.key} aria-hidden>
            g i
          </kbd>
        }
      />
    </form>
  );
}
