/**
 * A tenant sends many requests that are admitted before the first of them is charged. In these
 * tests its allowance is 100 rows.
 */
import { callRoute } from '../../api/support/calls.ts';
import type { Attack } from '../support/attack.ts';
import { countEvidence, createPoolWithToken, createTenantToken, writeReservation } from '../support/floods.ts';
import { openSlowBody } from '../support/slow-bodies.ts';

export const concurrentWriteAttacks: Attack[] = [
  {
    name: 'overdraws its allowance with 200 concurrent requests',
    without: writeReservation,
    async succeeds(server) {
      await createPoolWithToken(server, 'rush-pool');
      const bearer = await createTenantToken(server, 'rush');
      const { body } = await callRoute(
        server.url,
        'allocation-create',
        { body: { pool: 'rush-pool', name: 'one' } },
        { bearer },
      );
      const { allocation_id } = body.allocation as { allocation_id: string };
      const facts = Array.from({ length: 10 }, () => ({
        ...{ layer: 'operator', kind: 'rush.done', summary: 'x'.repeat(200), allocation_id },
      }));
      const slowBodies = Array.from({ length: 200 }, () =>
        openSlowBody(server.url, 'evidence-create', { facts }, { bearer }),
      );
      await Promise.all(slowBodies.map(({ arrived }) => arrived));
      // This request waits for the store after the earlier ones, so its answer shows that they were
      // admitted or refused.
      await callRoute(server.url, 'allocation-list', {}, { bearer });
      for (const each of slowBodies) each.finish();
      await Promise.all(slowBodies.map(({ replied }) => replied));
      return (await countEvidence(server, "kind = 'rush.done'")).rows > 400;
    },
  },
];
