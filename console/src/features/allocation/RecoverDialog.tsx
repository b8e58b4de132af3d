/**
 * Retries every failed release, or those of one pool: canaries first, then the others at a capped
 * rate. Shows a preview first.
 */
import { Modal, NumberInput, SimpleGrid } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { recoveryDefaults } from '../../../../src/lifecycle/actions/recovery.ts';
import { keys } from '../../api/cache/keys.ts';
import { newKey } from '../../api/client.ts';
import { type RecoveryRequest, recover } from '../../api/queries/recovery.ts';
import { ReasonForm } from '../../ui/dialog/ReasonForm.tsx';
import { shortId } from '../../ui/layout/CopyId.tsx';
import { dryRun } from '../actions/action.ts';
import { PredictionBox } from '../actions/PredictionBox.tsx';
import { matchedWords, paceWords } from './recovery.ts';

interface Props {
  opened: boolean;
  onClose: () => void;
  pool: string | undefined;
}

export function RecoverDialog({ opened, onClose, pool }: Props) {
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title={pool ? `Recover all of ${pool}` : 'Recover all'}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <RecoverForm onClose={onClose} pool={pool} />
    </Modal>
  );
}

type Pace = typeof recoveryDefaults;
type PaceName = keyof Pace;

const paceFields: { name: PaceName; label: string; description: string; max: number }[] = [
  { name: 'canary', label: 'Canary', description: 'Retried first', max: 1000 },
  { name: 'per_minute', label: 'Per minute', description: 'At most this many', max: 6000 },
  { name: 'stop_after_failures', label: 'Stop after', description: 'This many failures', max: 100_000 },
];

/** A field holds text while its input is not a number. */
type PaceDraft = Record<PaceName, number | string>;
const isComplete = (draft: PaceDraft): draft is Record<PaceName, number> =>
  Object.values(draft).every((value) => typeof value === 'number' && value >= 1);

function RecoverForm({ onClose, pool }: Omit<Props, 'opened'>) {
  const navigate = useNavigate();
  const [key] = useState(newKey);
  const [reason, setReason] = useState('');
  const [pace, setPace] = useState<PaceDraft>({ ...recoveryDefaults });
  const target: Omit<RecoveryRequest, 'reason'> = {
    action: 'retry-release',
    filter: { status: 'release_failed', ...(pool && { pool }) },
  };
  const prediction = useQuery({
    queryKey: keys.prediction(key, target),
    queryFn: () => recover({ ...target, ...dryRun }, newKey()),
    gcTime: 0,
    retry: false,
  });
  const mutation = useMutation({
    mutationFn: () => recover({ ...target, ...(isComplete(pace) ? pace : {}), reason: reason.trim() }, key),
    onSuccess: ({ operation }) => {
      onClose();
      if (operation) void navigate({ to: '/operations/$id', params: { id: operation.workflow_id } });
    },
  });
  return (
    <ReasonForm
      reason={reason}
      onReason={setReason}
      needsReason
      isReady={isComplete(pace) && (prediction.data?.eligible ?? 0) > 0}
      button="Recover all"
      mutation={mutation}
      onClose={onClose}
    >
      <div>
        This retries every failed release{pool && ` of ${pool}`}. The canary goes first. The others follow at the pace
        below if the canary recovers. You can watch and cancel the recovery like any operation.
      </div>
      <PredictionBox
        prediction={
          prediction.data
            ? { text: `${matchedWords(prediction.data, shortId)} ${isComplete(pace) ? paceWords(pace) : ''}` }
            : null
        }
        error={prediction.error}
      />
      <SimpleGrid cols={3} spacing="xs">
        {paceFields.map(({ name, label, description, max }) => (
          <NumberInput
            key={name}
            label={label}
            description={description}
            min={1}
            max={max}
            allowDecimal={false}
            value={pace[name]}
            onChange={(value) => setPace((known) => ({ ...known, [name]: value }))}
          />
        ))}
      </SimpleGrid>
    </ReasonForm>
  );
}
