/** The search box in the navigation. It takes any id or name and opens the page behind it. */
import { TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useRef, useState } from 'react';
import { IconFocus2 } from '../../ui/icons.generated.ts';
import { findMark } from '../../ui/keyboard.ts';
import styles from './FindBox.module.css';

export function FindBox({ onLeave }: { onLeave: () => void }) {
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
        // Leave the field, so that letters are shortcuts again on the next page.
        field.current?.blur();
        onLeave();
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
          // The first Escape clears the text; the next one closes the navigation.
          else event.preventDefault();
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
