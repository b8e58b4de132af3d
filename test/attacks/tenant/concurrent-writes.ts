/**
 * A tenant that has many requests admitted before the first of them is charged. Its allowance is
 * 100 rows here.
 */
import { callRoute } from '../../api/support/calls.ts';
import type { Attack } from '../support/attack.ts';
import { createJoinToken, createTenantToken, evidenceOf, withoutReservation } from '../support/floods.ts';
import { openSlowBody } from '../support/slow-bodies.ts';

export const concurrentWriteAttacks: Attack[] = [
  {
    name: 'overdraws its allowance with 200 concurrent requests',
    without: withoutReservation,
    async succeeds(server) {
      await createJoinToken(server, 'rush-pool');
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
      const open = Array.from({ length: 200 }, () =>
        openSlowBody(server.url, 'evidence-create', { facts }, { bearer }),
      );
      await Promise.all(open.map(({ arrived }) => arrived));
      // This list waits for the store behind the earlier requests, so they were admitted or refused
      // by then.
      await callRoute(server.url, 'allocation-list', {}, { bearer });
      for (const each of open) each.finish();
      await Promise.all(open.map(({ replied }) => replied));
      return (await evidenceOf(server, "kind = 'rush.done'")).rows > 400;
    },
  },
];
