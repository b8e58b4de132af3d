/**
 * A machine that has many requests admitted before the first of them is charged. Its allowance is
 * 200 rows here.
 */
import type { Attack } from '../support/attack.ts';
import { evidenceOfMachine, machineIn, withoutReservation } from '../support/floods.ts';
import { openSlowBody } from '../support/slow-bodies.ts';

export const concurrentWriteAttacks: Attack[] = [
  {
    name: 'overdraws its allowance with 200 concurrent requests',
    without: withoutReservation,
    async succeeds(server) {
      const machine = await machineIn(server, 'rush-facts');
      const at = new Date().toISOString();
      const facts = Array.from({ length: 20 }, () => ({
        ...{ at, layer: 'node', kind: 'disk.read', summary: 'x'.repeat(200) },
      }));
      const bearer = machine.credential;
      const open = Array.from({ length: 200 }, () => openSlowBody(server.url, 'agent-evidence', { facts }, { bearer }));
      await Promise.all(open.map(({ arrived }) => arrived));
      // Its answer shows that the requests before it were admitted or refused.
      await machine.call('agent-task-keys');
      for (const each of open) each.finish();
      await Promise.all(open.map(({ replied }) => replied));
      return (await evidenceOfMachine(server, machine)).rows > 800;
    },
  },
];
