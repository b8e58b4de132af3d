/** Confirms an action: shows its prediction and takes a reason, which is recorded as evidence. */
import { Modal } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { keys } from '../../api/cache/keys.ts';
import { newKey } from '../../api/client.ts';
import { ReasonForm } from '../../ui/dialog/ReasonForm.tsx';
import { notify } from '../../ui/notices.ts';
import type { Action, Extras, Outcome } from './action.ts';
import { EnrolmentToken } from './EnrolmentToken.tsx';
import { ExtraField, initialExtras } from './ExtraField.tsx';
import { PredictionBox } from './PredictionBox.tsx';

interface Props {
  action: Action | null;
  onClose: () => void;
}

export function ActionDialog({ action, onClose }: Props) {
  const [token, setToken] = useState<string | null>(null);
  const close = () => {
    setToken(null);
    onClose();
  };
  const finish = ({ notice, isRunning, enrollment_token }: Outcome) => {
    if (isRunning) notify.started(notice);
    else notify.done(notice);
    if (enrollment_token) setToken(enrollment_token);
    else close();
  };
  return (
    <Modal
      opened={action !== null}
      onClose={close}
      title={action?.title}
      closeButtonProps={{ 'aria-label': 'Close' }}
      // A stray click must not lose a token that is shown only once.
      closeOnClickOutside={token === null}
      closeOnEscape={token === null}
    >
      {action && token === null && <ActionForm action={action} onDone={finish} onClose={close} />}
      {token !== null && <EnrolmentToken token={token} onClose={close} />}
    </Modal>
  );
}

/** Wait until typing stops before requesting a prediction. */
const typingMs = 300;

/** `isKnown` is true if the prediction matches the input, or if the action has no prediction. */
function usePrediction(action: Action, extras: Extras, key: string) {
  const [settledExtras] = useDebouncedValue(extras, typingMs);
  const prediction = useQuery({
    queryKey: keys.prediction(key, settledExtras),
    queryFn: () => action.predict?.(settledExtras) ?? null,
    enabled: action.predict !== undefined,
    placeholderData: keepPreviousData,
    gcTime: 0,
    retry: false,
  });
  return {
    ...prediction,
    isKnown:
      action.predict === undefined ||
      (prediction.isSuccess && !prediction.isPlaceholderData && settledExtras === extras),
  };
}

interface FormProps {
  action: Action;
  onDone: (outcome: Outcome) => void;
  onClose: () => void;
}

function ActionForm({ action, onDone, onClose }: FormProps) {
  const [key] = useState(newKey);
  const [reason, setReason] = useState('');
  const [extras, setExtras] = useState<Extras | null>(() => initialExtras(action.extraFields ?? []));
  const [lastValidExtras, setLastValidExtras] = useState<Extras>(extras ?? {});
  const prediction = usePrediction(action, lastValidExtras, key);
  const mutation = useMutation({
    mutationFn: () => {
      const fingerprint = prediction.data?.fingerprint;
      const withFingerprint = { ...lastValidExtras, ...(fingerprint && { fingerprint }) };
      return action.run({ ...withFingerprint, reason: reason.trim() || undefined }, key);
    },
    onSuccess: onDone,
  });
  const change = (next: Extras | null) => {
    setExtras(next);
    if (next) setLastValidExtras(next);
  };
  return (
    <ReasonForm
      reason={reason}
      onReason={setReason}
      takesReason={action.takesReason}
      needsReason={action.needsReason}
      isReady={extras !== null && prediction.isKnown}
      button={action.button}
      destructive={action.destructive}
      mutation={mutation}
      onClose={onClose}
    >
      <div>{action.description}</div>
      {action.extraFields?.map((name) => (
        <ExtraField key={name} name={name} extras={lastValidExtras} onChange={change} />
      ))}
      {action.predict && <PredictionBox prediction={prediction.data ?? null} error={prediction.error} />}
    </ReasonForm>
  );
}
