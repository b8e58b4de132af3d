/**
 * A caller without a credential attacks the route for heartbeat batches, whose body holds the
 * credentials.
 */
import { randomUUID } from 'node:crypto';
import { callRoute } from '../../api/support/calls.ts';
import type { Attack } from '../support/attack.ts';
import { startMachineInNewPool } from '../support/floods.ts';
import { openSlowBody } from '../support/slow-bodies.ts';

const unknownCredentials = (count: number) =>
  Array.from({ length: count }, () => ({ credential: `swc_${randomUUID()}` }));

export const unknownCredentialAttacks: Attack[] = [
  {
    name: 'looks up unknown credentials without a limit',
    without: [
      {
        file: 'src/api/limits/quotas/request-rates.ts',
        find: 'if (unknown > 0) accounts.charge(key, quota, unknown, 0);',
        replace: '',
      },
    ],
    async succeeds(server) {
      const machine = await startMachineInNewPool(server, 'same-address');
      const codes = new Set<unknown>();
      for (let batch = 0; batch < 5; batch++) {
        const beats = [...unknownCredentials(100), { credential: machine.credential }];
        const { body } = await callRoute(server.url, 'agent-heartbeats', { body: { beats } });
        const results = body.results as { code?: string; node_status?: string }[];
        for (const { code } of results.slice(0, -1)) codes.add(code);
        if (results.at(-1)?.node_status !== 'ready')
          throw new Error('the heartbeat of a known machine at the same address was refused');
      }
      return !codes.has('rate_limited');
    },
  },
];

export const heldBodyAttacks: Attack[] = [
  {
    name: 'makes the server hold many large, slow bodies',
    without: [
      {
        file: 'src/api/limits/held/body-budget.ts',
        find: '(bytesBySource.get(source) ?? 0) + bytes > limits.source_bytes',
        replace: 'false',
      },
    ],
    async succeeds(server) {
      const beats = [{ credential: `swc_${randomUUID()}`, message: 'x'.repeat(900) }];
      const paddedBatch = { beats: Array.from({ length: 900 }, () => beats[0]) };
      const slowBodies = Array.from({ length: 30 }, () => openSlowBody(server.url, 'agent-heartbeats', paddedBatch));
      await Promise.all(slowBodies.map(({ arrived }) => arrived));
      // The answer to this request shows that the earlier ones were admitted or refused, and that
      // there is still room for small bodies.
      const small = await callRoute(server.url, 'session-create', { body: { token: server.token } });
      if (small.status !== 201) throw new Error(`nobody can sign in: ${small.status}`);
      for (const each of slowBodies) each.finish();
      const statuses = await Promise.all(slowBodies.map(({ replied }) => replied));
      return statuses.every((status) => status === 200);
    },
  },
];
