/** Confirms an action: shows its prediction and takes a reason, which is recorded as evidence. */
import { Modal } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { keys } from '../../api/cache/keys.ts';
import { newKey } from '../../api/client.ts';
import { ReasonForm } from '../../ui/dialog/ReasonForm.tsx';
import { say } from '../../ui/notices.ts';
import type { Action, Extras, Outcome } from './action.ts';
import { EnrolmentToken } from './EnrolmentToken.tsx';
import { ExtraField, firstExtras } from './ExtraField.tsx';
import { ForesightBox } from './ForesightBox.tsx';

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
  const finish = ({ says, begun, enrollment_token }: Outcome) => {
    if (begun) say.begun(says);
    else say.done(says);
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

/** Wait until typing stops before asking for a prediction. */
const typingMs = 300;

/** An action without a prediction is always ready. */
function useForesight(action: Action, extras: Extras, key: string) {
  const [asked] = useDebouncedValue(extras, typingMs);
  const foresight = useQuery({
    queryKey: keys.foresight(key, asked),
    queryFn: () => action.foresee?.(asked) ?? null,
    enabled: action.foresee !== undefined,
    placeholderData: keepPreviousData,
    gcTime: 0,
    retry: false,
  });
  return {
    ...foresight,
    isKnown: action.foresee === undefined || (foresight.isSuccess && !foresight.isPlaceholderData && asked === extras),
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
  const [extras, setExtras] = useState<Extras | null>(() => firstExtras(action.asks ?? []));
  const [lastWhole, setLastWhole] = useState<Extras>(extras ?? {});
  const foresight = useForesight(action, lastWhole, key);
  const mutation = useMutation({
    mutationFn: () => {
      const fingerprint = foresight.data?.fingerprint;
      const withFingerprint = { ...lastWhole, ...(fingerprint && { fingerprint }) };
      return action.run({ ...withFingerprint, reason: reason.trim() || undefined }, key);
    },
    onSuccess: onDone,
  });
  const change = (next: Extras | null) => {
    setExtras(next);
    if (next) setLastWhole(next);
  };
  return (
    <ReasonForm
      reason={reason}
      onReason={setReason}
      takesReason={action.takesReason}
      needsReason={action.needsReason}
      isReady={extras !== null && foresight.isKnown}
      button={action.button}
      destructive={action.destructive}
      doing={mutation}
      onClose={onClose}
    >
      <div>{action.says}</div>
      {action.asks?.map((name) => (
        <ExtraField key={name} name={name} extras={lastWhole} onChange={change} />
      ))}
      {action.foresee && <ForesightBox foresight={foresight.data ?? null} error={foresight.error} />}
    </ReasonForm>
  );
}
