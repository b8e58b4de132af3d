/**
 * A machine sends many requests that are admitted before the first of them is charged. In these
 * tests the allowance of an instance is 200 rows.
 */
import type { Attack } from '../support/attack.ts';
import { countEvidenceOfMachine, startMachineInNewPool, writeReservation } from '../support/floods.ts';
import { openSlowBody } from '../support/slow-bodies.ts';

export const concurrentWriteAttacks: Attack[] = [
  {
    name: 'overdraws its allowance with 200 concurrent requests',
    without: writeReservation,
    async succeeds(server) {
      const machine = await startMachineInNewPool(server, 'rush-facts');
      const at = new Date().toISOString();
      const facts = Array.from({ length: 20 }, () => ({
        ...{ at, layer: 'node', kind: 'disk.read', summary: 'x'.repeat(200) },
      }));
      const bearer = machine.credential;
      const slowBodies = Array.from({ length: 200 }, () =>
        openSlowBody(server.url, 'agent-evidence', { facts }, { bearer }),
      );
      await Promise.all(slowBodies.map(({ arrived }) => arrived));
      // The answer to this request shows that the earlier ones were admitted or refused.
      await machine.call('agent-task-keys');
      for (const each of slowBodies) each.finish();
      await Promise.all(slowBodies.map(({ replied }) => replied));
      return (await countEvidenceOfMachine(server, machine)).rows > 800;
    },
  },
];
