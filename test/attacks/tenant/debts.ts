/** A tenant uses up the write allowance of its machine, which must not harm anybody else. */

import { signatureOf } from '../../../src/agent/connection/keys.ts';
import { rotationBody } from '../../../src/contract/agent/credential-rotation.ts';
import type { Machine } from '../../api/support/machine.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';
import { allocate, createTenantToken, startMachineInNewPool } from '../support/tenancy.ts';
import { release } from './former-tenant.ts';

const stages = Array.from({ length: 150 }, (_, index) => ({ name: `s-${index}`, seconds: 1 }));
const reportStages = (machine: Machine, seconds: number) =>
  machine.call('agent-boot', { body: { stages: stages.map(({ name }) => ({ name, seconds })) } });

/** Reports boot stages until the server refuses them. */
const useUpAllowance = (machine: Machine) => {
  let times = 0;
  return until('the machine to be over its limit', async () => (await reportStages(machine, ++times)).status === 429);
};

export const debtAttacks: Attack[] = [
  {
    name: 'leaves its write debt to the next tenant of the machine',
    without: [
      {
        file: 'src/api/limits/quotas/write-limits.ts',
        find: 'resetInstance: (id) => accounts.reset(',
        replace: 'resetInstance: (id) => void (',
      },
    ],
    async succeeds(server) {
      const formerToken = await createTenantToken(server, 'debtor');
      const nextToken = await createTenantToken(server, 'heir');
      const machine = await startMachineInNewPool(server, 'indebted');
      const allocation = await allocate(server, formerToken, 'indebted');
      await useUpAllowance(machine);
      await release(server, formerToken, allocation, machine);
      const { node_id } = await allocate(server, nextToken, 'indebted');
      if (node_id !== machine.node_id) throw new Error('the next tenant got another machine');
      return (await reportStages(machine, 0.5)).status === 429;
    },
  },
  {
    name: 'writes so much that its machine cannot renew its credential',
    without: [
      {
        file: 'src/api/limits/quotas/admit-write.ts',
        find: "  'agent-credential-rotate',\n] as const);",
        replace: '] as const);',
      },
    ],
    async succeeds(server) {
      const machine = await startMachineInNewPool(server, 'expiring');
      await useUpAllowance(machine);
      const { node_instance_id, credential, private_key } = machine;
      const signature = signatureOf(private_key, rotationBody({ node_instance_id, credential }));
      return (await machine.call('agent-credential-rotate', { body: { signature } })).status === 429;
    },
  },
];
