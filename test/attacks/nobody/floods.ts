/** Somebody without a credential who wants to be recorded often: by ever other addresses and ever other targets. */
import { randomUUID } from 'node:crypto';
import { callRoute } from '../../api/support/calls.ts';
import { until } from '../../support/until.ts';
import type { Attack, SourceEdit } from '../support/attack.ts';
import { evidenceOf, tightLimits } from '../support/floods.ts';

/** The proxy in front is trusted, and passes on any address: a network of machines, or one with many addresses. */
export const tightBehindProxy = ['--behind-proxy', ...tightLimits];

const withoutBudget: SourceEdit[] = [
  {
    file: 'src/api/limits/quotas/outside-writes.ts',
    find: 'const allowed = waitSeconds(writer) === 0;',
    replace: 'const allowed = true;',
  },
];

export const floodAttacks: Attack[] = [
  {
    name: '4: fills the audit from many addresses',
    without: withoutBudget,
    async succeeds(server) {
      for (let index = 0; index < 300; index++)
        await callRoute(
          server.url,
          'node-list',
          {},
          { headers: { 'x-forwarded-for': `10.0.${index >> 8}.${index & 255}` } },
        );
      // The last one is recorded or counted by now, or will be within a window.
      await until('the refusals to be written', async () => {
        const dropped = await evidenceOf(server, "kind = 'evidence.dropped'");
        const denied = await evidenceOf(server, "kind = 'request.denied'");
        return dropped.rows > 0 || denied.rows >= 300;
      });
      return (await evidenceOf(server, "kind = 'request.denied'")).rows > 200;
    },
  },
  {
    name: '4: fills the audit with ever other targets',
    without: withoutBudget,
    async succeeds(server) {
      const headers = { 'x-forwarded-for': '198.51.100.9' };
      for (let index = 0; index < 180; index++)
        await callRoute(server.url, 'node-get', { params: { id: `node_${randomUUID()}` } }, { headers });
      const { rows } = await evidenceOf(server, "actor ->> 'id' = '198.51.100.9'");
      return rows > 100;
    },
  },
];
