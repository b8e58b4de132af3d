/** A form in a dialog, with the error and the two buttons at its end. */
import { Button, Group, Stack } from '@mantine/core';
import type { FormEvent, ReactNode } from 'react';
import { FailurePanel } from '../layout/FailurePanel.tsx';

interface Props {
  children: ReactNode;
  /** All fields are valid. */
  isReady: boolean;
  button: string;
  destructive?: boolean | undefined;
  mutation: { error: Error | null; isPending: boolean; mutate: () => void };
  onClose: () => void;
}

export function DialogForm({ children, isReady, button, destructive = false, mutation, onClose }: Props) {
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isReady) mutation.mutate();
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="md">
        {children}
        {mutation.error && <FailurePanel error={mutation.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Go back
          </Button>
          <Button
            type="submit"
            color={destructive ? 'red' : undefined}
            loading={mutation.isPending}
            disabled={!isReady}
          >
            {button}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
