/** Asks once more before something is done, says what it will do, and takes a reason that is kept as evidence. */
import { Button, Group, Modal, NumberInput, Stack, Textarea } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { newKey } from '../api/client.ts';
import { FailurePanel } from '../components/FailurePanel.tsx';
import { say } from '../notices.ts';

export interface Action {
  title: string;
  /** What will happen, for somebody who has not done it before. */
  says: ReactNode;
  button: string;
  /** Takes something away. */
  destructive?: boolean;
  done: string;
  /** It is refused without a reason. */
  needsReason?: boolean;
  /** Asks by how many minutes, beginning with so many. */
  minutes?: number;
  run: (reason: string | undefined, idempotency_key: string, minutes: number) => Promise<unknown>;
}

interface Props {
  action: Action | null;
  onClose: () => void;
}

export function ActionDialog({ action, onClose }: Props) {
  return (
    <Modal
      opened={action !== null}
      onClose={onClose}
      title={action?.title}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {action && <ActionForm action={action} onClose={onClose} />}
    </Modal>
  );
}

function ActionForm({ action, onClose }: { action: Action; onClose: () => void }) {
  const [key] = useState(newKey);
  const [reason, setReason] = useState('');
  const [minutes, setMinutes] = useState<number | string>(action.minutes ?? 0);
  const isComplete = !(action.needsReason && reason.trim() === '') && typeof minutes === 'number';
  const mutation = useMutation({
    mutationFn: () => action.run(reason.trim() || undefined, key, Number(minutes)),
    onSuccess: () => {
      onClose();
      say.done(action.done);
    },
  });
  return (
    <Stack gap="md">
      <div>{action.says}</div>
      {action.minutes !== undefined && (
        <NumberInput label="By how long" suffix=" min" min={1} max={525_600} value={minutes} onChange={setMinutes} />
      )}
      <Textarea
        label="Reason"
        description={`${action.needsReason ? 'Needed' : 'Optional'}. It is kept as evidence, under your name`}
        required={action.needsReason}
        autosize
        minRows={2}
        maxLength={1024}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        data-autofocus
      />
      {mutation.error && <FailurePanel error={mutation.error} />}
      <Group justify="flex-end" gap="xs">
        <Button variant="default" onClick={onClose}>
          Not now
        </Button>
        <Button
          color={action.destructive ? 'red' : undefined}
          loading={mutation.isPending}
          disabled={!isComplete}
          onClick={() => mutation.mutate()}
        >
          {action.button}
        </Button>
      </Group>
    </Stack>
  );
}
