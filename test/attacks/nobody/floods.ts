/** A caller without a credential fills the audit by changing its addresses and targets. */
import { randomUUID } from 'node:crypto';
import { callRoute } from '../../api/support/calls.ts';
import { until } from '../../support/until.ts';
import type { Attack, SourceEdit } from '../support/attack.ts';
import { countEvidence, tightLimits } from '../support/floods.ts';

/**
 * The trusted proxy passes on any address, as if the calls came from a botnet or a host with many
 * addresses.
 */
export const tightBehindProxy = ['--behind-proxy', ...tightLimits];

const auditBudget: SourceEdit[] = [
  {
    file: 'src/api/limits/quotas/write-limits.ts',
    find: 'const isAllowed = waitSeconds(writer) === 0;',
    replace: 'const isAllowed = true;',
  },
];

export const floodAttacks: Attack[] = [
  {
    name: 'fills the audit from many addresses',
    without: auditBudget,
    async succeeds(server) {
      for (let index = 0; index < 300; index++)
        await callRoute(
          server.url,
          'node-list',
          {},
          { headers: { 'x-forwarded-for': `10.0.${index >> 8}.${index & 255}` } },
        );
      // Wait until every refusal is recorded, or until the server reports, once per window, that it
      // dropped some.
      await until('the refusals to be written', async () => {
        const droppedCount = await countEvidence(server, "kind = 'evidence.dropped'");
        const deniedCount = await countEvidence(server, "kind = 'request.denied'");
        return droppedCount.rows > 0 || deniedCount.rows >= 300;
      });
      return (await countEvidence(server, "kind = 'request.denied'")).rows > 200;
    },
  },
  {
    name: 'fills the audit with changing targets',
    without: auditBudget,
    async succeeds(server) {
      const headers = { 'x-forwarded-for': '198.51.100.9' };
      for (let index = 0; index < 180; index++)
        await callRoute(server.url, 'node-get', { params: { id: `node_${randomUUID()}` } }, { headers });
      const { rows } = await countEvidence(server, "actor ->> 'id' = '198.51.100.9'");
      return rows > 100;
    },
  },
];
