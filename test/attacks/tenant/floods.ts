/**
 * A tenant writes, reads and signs in as much as it can. `tight-limits.yaml` allows it bursts of
 * 100 rows, 450 requests and 10 sign-ins.
 */
import { fileURLToPath } from 'node:url';
import { callRoute } from '../../api/support/calls.ts';
import type { SpawnedServer } from '../../support/server.ts';
import type { Attack, SourceEdit } from '../support/attack.ts';
import { countEvidence, countRefused, createPoolWithToken, createTenantToken } from '../support/floods.ts';

const writeAdmission: SourceEdit[] = [
  {
    file: 'src/api/limits/quotas/admit-write.ts',
    find: 'writeLimits.reserve(writer, expected)',
    replace: '() => {}',
  },
];

const allocate = (server: SpawnedServer, bearer: string, pool: string, name: string) =>
  callRoute(server.url, 'allocation-create', { body: { pool, name } }, { bearer });

export const floodAttacks: Attack[] = [
  {
    name: 'fills the store with facts about its allocation',
    without: writeAdmission,
    async succeeds(server) {
      await createPoolWithToken(server, 'facts-pool');
      const bearer = await createTenantToken(server, 'facts');
      const { body } = await allocate(server, bearer, 'facts-pool', 'one');
      const { allocation_id } = body.allocation as { allocation_id: string };
      const facts = Array.from({ length: 200 }, () => ({
        ...{ layer: 'operator', kind: 'deploy.done', summary: 'x'.repeat(400), allocation_id },
      }));
      await countRefused(8, () => callRoute(server.url, 'evidence-create', { body: { facts } }, { bearer }));
      return (await countEvidence(server, "kind = 'deploy.done'")).rows > 800;
    },
  },
  {
    name: 'fills the store with allocations',
    without: writeAdmission,
    async succeeds(server) {
      await createPoolWithToken(server, 'greedy-pool');
      const bearer = await createTenantToken(server, 'greedy');
      const refusedCount = await countRefused(60, (index) => allocate(server, bearer, 'greedy-pool', `claim-${index}`));
      return refusedCount === 0;
    },
  },
  {
    // A read reserves nothing, so only the check in `tryCharge` stops its audit entries. A write
    // would already be refused when it reserves from the same allowance.
    name: 'fills the audit with requests that fail',
    without: [
      {
        file: 'src/api/limits/quotas/write-limits.ts',
        find: 'const isAllowed = waitSeconds(writer) === 0;',
        replace: 'const isAllowed = true;',
      },
    ],
    async succeeds(server) {
      const bearer = await createTenantToken(server, 'failing');
      await countRefused(300, (index) =>
        callRoute(server.url, 'pool-get', { params: { pool: `none-${index}` } }, { bearer }),
      );
      const { rows } = await countEvidence(server, "actor ->> 'name' = 'failing'");
      return rows > 180;
    },
  },
  {
    name: 'calls without a rate limit',
    without: [
      {
        file: 'src/api/limits/quotas/request-rates.ts',
        find: 'if (seconds > 0) refuse(name, caller.kind, seconds);',
        replace: '',
      },
    ],
    async succeeds(server) {
      const bearer = await createTenantToken(server, 'asking');
      const refusedCount = await countRefused(600, () =>
        callRoute(server.url, 'allocation-list', { query: { limit: 1 } }, { bearer }),
      );
      return refusedCount === 0;
    },
  },
  {
    name: 'reads pages of many bytes without a limit',
    without: [
      {
        file: 'src/api/server.ts',
        find: 'services.rates.chargeReply(request, isWhole ? Buffer.byteLength(payload) : 0);',
        replace: '',
      },
    ],
    async succeeds(server) {
      await createPoolWithToken(server, 'paged-pool');
      const bearer = await createTenantToken(server, 'paging');
      const labels = Object.fromEntries(Array.from({ length: 64 }, (_, index) => [`label-${index}`, 'x'.repeat(256)]));
      await callRoute(server.url, 'allocation-create', { body: { pool: 'paged-pool', labels } }, { bearer });
      const list = () => callRoute(server.url, 'allocation-list', { query: { limit: 1 } }, { bearer });
      return (await countRefused(300, list)) === 0;
    },
  },
  {
    name: 'opens console sessions without a limit',
    without: [
      {
        file: 'src/api/routes/sessions.ts',
        find: "services.rates.admitKnown('sign_in', person.token_id, 'session-create');",
        replace: '',
      },
    ],
    async succeeds(server) {
      const token = await createTenantToken(server, 'signing-in');
      const refusedCount = await countRefused(40, () => callRoute(server.url, 'session-create', { body: { token } }));
      const otherSignIn = await callRoute(server.url, 'session-create', { body: { token: server.token } });
      if (otherSignIn.status !== 201) throw new Error(`another token cannot sign in: ${otherSignIn.status}`);
      return refusedCount === 0;
    },
  },
];

/**
 * Each tenant stays below its own allowance. In these tests the allowance of all callers together
 * is 300 rows.
 */
export const smallTotal = ['--config', fileURLToPath(new URL('../support/small-total.yaml', import.meta.url))];
export const crowdFloodAttacks: Attack[] = [
  {
    name: 'fills the store together with other tenants',
    without: [
      {
        file: 'src/api/limits/quotas/write-limits.ts',
        find: '[...writer.allowances, everybody]',
        replace: '[...writer.allowances]',
      },
    ],
    async succeeds(server) {
      await createPoolWithToken(server, 'crowded-pool');
      let refusedCount = 0;
      for (const tenant of ['crowd-1', 'crowd-2', 'crowd-3', 'crowd-4', 'crowd-5']) {
        const bearer = await createTenantToken(server, tenant);
        refusedCount += await countRefused(10, (index) =>
          allocate(server, bearer, 'crowded-pool', `${tenant}-${index}`),
        );
      }
      return refusedCount === 0;
    },
  },
];
