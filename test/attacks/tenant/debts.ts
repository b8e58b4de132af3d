/** A tenant that uses up the write allowance of its machine before it releases the machine. */

import { signed } from '../../../src/agent/connection/keys.ts';
import { rotationBody } from '../../../src/contract/agent/credential-rotation.ts';
import type { Machine } from '../../api/support/machine.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';
import { allocate, createTenantToken, machineIn } from '../support/tenancy.ts';
import { release } from './former-tenant.ts';

const stages = Array.from({ length: 150 }, (_, index) => ({ name: `s-${index}`, seconds: 1 }));
const report = (machine: Machine, seconds: number) =>
  machine.call('agent-boot', { body: { stages: stages.map(({ name }) => ({ name, seconds })) } });

/** Writes until the machine is refused. */
const useUp = (machine: Machine) => {
  let times = 0;
  return until('the machine to be over its limit', async () => (await report(machine, ++times)).status === 429);
};

export const debtAttacks: Attack[] = [
  {
    name: 'leaves its write debt to the next tenant of the machine',
    without: [
      {
        file: 'src/api/limits/quotas/outside-writes.ts',
        find: 'resetInstance: (id) => accounts.reset(',
        replace: 'resetInstance: (id) => void (',
      },
    ],
    async succeeds(server) {
      const former = await createTenantToken(server, 'debtor');
      const next = await createTenantToken(server, 'heir');
      const machine = await machineIn(server, 'indebted');
      const allocation = await allocate(server, former, 'indebted');
      await useUp(machine);
      await release(server, former, allocation, machine);
      const { node_id } = await allocate(server, next, 'indebted');
      if (node_id !== machine.node_id) throw new Error('the next tenant was given another machine');
      return (await report(machine, 0.5)).status === 429;
    },
  },
  {
    name: 'keeps its machine from renewing its credential by writing too much',
    without: [
      {
        file: 'src/api/limits/quotas/admit-write.ts',
        find: "  'agent-credential-rotate',\n] as const);",
        replace: '] as const);',
      },
    ],
    async succeeds(server) {
      const machine = await machineIn(server, 'expiring');
      await useUp(machine);
      const { node_instance_id, credential, private_key } = machine;
      const signature = signed(private_key, rotationBody({ node_instance_id, credential }));
      return (await machine.call('agent-credential-rotate', { body: { signature } })).status === 429;
    },
  },
];
