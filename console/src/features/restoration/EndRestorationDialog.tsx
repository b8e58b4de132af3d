/**
 * Lets the servers act again after a restore. Shows first how many nodes will be quarantined, and
 * why.
 */
import { Checkbox, Modal } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { keys } from '../../api/cache/keys.ts';
import { newKey } from '../../api/client.ts';
import { endRestoration } from '../../api/queries/restoration.ts';
import { ReasonForm } from '../../ui/dialog/ReasonForm.tsx';
import { notify } from '../../ui/notices.ts';
import { PredictionBox } from '../actions/PredictionBox.tsx';
import { endedNotice, quarantineWords, type Restoration } from './words.ts';

interface Props {
  opened: boolean;
  onClose: () => void;
  restoration: Restoration;
}

export function EndRestorationDialog({ opened, onClose, restoration }: Props) {
  return (
    <Modal opened={opened} onClose={onClose} title="Let the servers act" closeButtonProps={{ 'aria-label': 'Close' }}>
      <EndRestorationForm onClose={onClose} restoration={restoration} />
    </Modal>
  );
}

function EndRestorationForm({ onClose, restoration }: Omit<Props, 'opened'>) {
  const cache = useQueryClient();
  const [key] = useState(newKey);
  const [reason, setReason] = useState('');
  const [trustsFree, setTrustsFree] = useState(false);
  const [isForced, setIsForced] = useState(false);
  const [trustsUnconfirmed, setTrustsUnconfirmed] = useState(false);
  const needsForce = restoration.comparing;
  const mutation = useMutation({
    mutationFn: () =>
      endRestoration(
        {
          reason: reason.trim(),
          ...(trustsFree && { trust_free: true }),
          ...(trustsUnconfirmed && { trust_unconfirmed: true }),
          ...(needsForce && { force: true }),
        },
        key,
      ),
    onSuccess: async ({ quarantined }) => {
      notify.done(endedNotice(quarantined));
      onClose();
      await Promise.all(
        [keys.allRestorations(), keys.serverStatus()].map((queryKey) => cache.invalidateQueries({ queryKey })),
      );
    },
  });
  return (
    <ReasonForm
      reason={reason}
      onReason={setReason}
      needsReason
      isReady={isForced || !needsForce}
      button="Let the servers act"
      destructive
      mutation={mutation}
      onClose={onClose}
    >
      <div>From then on the servers launch, release and judge machines again. You cannot undo this.</div>
      <PredictionBox
        prediction={{ text: quarantineWords(restoration.differences, { trustsFree, trustsUnconfirmed }) }}
        error={null}
      />
      <Checkbox
        label="Nothing was allocated after the backup"
        description="Free machines may then be assigned at once, without quarantine"
        checked={trustsFree}
        onChange={(event) => setTrustsFree(event.currentTarget.checked)}
      />
      <Checkbox
        label="No unconfirmed machine changed hands after the backup"
        description="They keep their tenants, without quarantine"
        checked={trustsUnconfirmed}
        onChange={(event) => setTrustsUnconfirmed(event.currentTarget.checked)}
      />
      {needsForce && (
        <Checkbox
          label="Act although not every machine was compared"
          description="More machines may differ. If the sweep restored-machines fails, the Supervision page shows its error"
          checked={isForced}
          onChange={(event) => setIsForced(event.currentTarget.checked)}
        />
      )}
    </ReasonForm>
  );
}
