/** Allocates a machine from a pool. Tenants may not list pools, so they type the name. */
import { Modal, NumberInput, Select, TextInput } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import type { Pool } from '../../../../src/contract/pool.ts';
import { keyPerBody } from '../../api/client.ts';
import { allocate } from '../../api/queries/allocations.ts';
import { poolsQuery } from '../../api/queries/pools.ts';
import { seesWholeFleet, useSession } from '../../api/session.ts';
import { DialogForm } from '../../ui/dialog/DialogForm.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';

interface Props {
  opened: boolean;
  onClose: () => void;
  pool?: string;
}

export function AllocateDialog({ opened, onClose, pool }: Props) {
  return (
    <Modal opened={opened} onClose={onClose} title="Allocate a machine" closeButtonProps={{ 'aria-label': 'Close' }}>
      <AllocateForm onClose={onClose} pool={pool} />
    </Modal>
  );
}

const namePattern = '[a-z0-9]([a-z0-9._\\-]*[a-z0-9])?';

const poolChoice = ({ name, driver, paused, nodes, max_nodes }: Pool) => ({
  value: name,
  label: `${name} · ${driver} · ${paused ? 'paused' : `${nodes.live}${max_nodes ? ` of ${max_nodes}` : ''} live, ${nodes.free} free`}`,
  disabled: paused ?? false,
});

function AllocateForm({ onClose, pool }: { onClose: () => void; pool: string | undefined }) {
  const session = useSession();
  const navigate = useNavigate();
  const [keyOf] = useState(keyPerBody);
  const pools = useQuery({ ...poolsQuery, enabled: seesWholeFleet(session) });
  const [chosen, choose] = useState<string | null>(pool ?? null);
  const [name, setName] = useState('');
  const [giveUpAfter, setGiveUpAfter] = useState<number | string>('');
  const onlyPool = pools.data?.length === 1 ? pools.data[0]?.name : undefined;
  const poolName = chosen ?? onlyPool ?? null;

  const mutation = useMutation({
    mutationFn: () => {
      const body = {
        pool: poolName ?? '',
        name: name || undefined,
        provision_timeout_seconds: typeof giveUpAfter === 'number' ? giveUpAfter : undefined,
      };
      return allocate(body, keyOf(body));
    },
    onSuccess: ({ allocation }) => {
      onClose();
      void navigate({ to: '/allocations/$id', params: { id: allocation.allocation_id } });
    },
  });

  return (
    <DialogForm isReady={!!poolName} button="Allocate" mutation={mutation} onClose={onClose}>
      {seesWholeFleet(session) ? (
        <Select
          label="Pool"
          description="The kind of machine"
          placeholder={pools.isPending ? 'Loading' : 'Choose a pool'}
          data={pools.data?.map(poolChoice) ?? []}
          value={poolName}
          onChange={choose}
          allowDeselect={false}
          required
          data-autofocus
        />
      ) : (
        <TextInput
          label="Pool"
          description="The kind of machine"
          value={chosen ?? ''}
          onChange={(event) => choose(event.currentTarget.value)}
          required
          data-autofocus
        />
      )}
      <TextInput
        label="Name"
        description="Optional. Lowercase letters, digits, dots and dashes"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        pattern={namePattern}
        maxLength={63}
      />
      <NumberInput
        label="Give up after"
        description="Optional. Seconds until the machine must register. The default is the pool's budget"
        suffix=" s"
        min={1}
        max={31_536_000}
        value={giveUpAfter}
        onChange={setGiveUpAfter}
      />
      {pools.error && <FailurePanel error={pools.error} />}
    </DialogForm>
  );
}
