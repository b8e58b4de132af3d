/** A dialog form with a field for the reason. */
import { Textarea } from '@mantine/core';
import type { ReactNode } from 'react';
import { DialogForm } from './DialogForm.tsx';

interface Props {
  /** The fields and the prediction. */
  children: ReactNode;
  reason: string;
  onReason: (reason: string) => void;
  takesReason?: boolean | undefined;
  needsReason?: boolean | undefined;
  /** All fields except the reason are valid. */
  isReady: boolean;
  button: string;
  destructive?: boolean | undefined;
  mutation: { error: Error | null; isPending: boolean; mutate: () => void };
  onClose: () => void;
}

export function ReasonForm({
  children,
  reason,
  onReason,
  takesReason = true,
  needsReason = false,
  isReady,
  button,
  destructive = false,
  mutation,
  onClose,
}: Props) {
  const isComplete = isReady && !(needsReason && reason.trim() === '');
  return (
    <DialogForm isReady={isComplete} button={button} destructive={destructive} mutation={mutation} onClose={onClose}>
      {children}
      {takesReason && (
        <Textarea
          label="Reason"
          description={`${needsReason ? 'Required' : 'Optional'}. Recorded as evidence under your name`}
          required={needsReason}
          autosize
          minRows={2}
          maxLength={1024}
          value={reason}
          onChange={(event) => onReason(event.currentTarget.value)}
          data-autofocus
        />
      )}
    </DialogForm>
  );
}
