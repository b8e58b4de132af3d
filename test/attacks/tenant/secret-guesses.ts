/** A tenant prints guesses on its own machine and reads which of them the server redacted. */
import { randomBytes } from 'node:crypto';
import { RequestRefused } from '../../../src/contract/client.ts';
import { startMachine } from '../../api/support/machine.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { createPoolToJoin } from '../node/pool.ts';
import type { Attack } from '../support/attack.ts';

/** Whether the server accepted the secret. */
async function storeSecret({ client }: SpawnedServer, name: string, value: string): Promise<boolean> {
  try {
    await client.call('secret-put', { params: { name }, body: { value } });
    return true;
  } catch (error) {
    if (error instanceof RequestRefused) return false;
    throw error;
  }
}

export const secretGuessAttacks: Attack[] = [
  {
    name: "secrets: confirms a guess at another pool's secret in its own log",
    without: [{ file: 'src/store/logs/log-writer.ts', find: 'await pool_redactors.of(pool)', replace: 'db.redact' }],
    async succeeds(server) {
      const machine = await startMachine(server.url, await createPoolToJoin(server, 'guesses-logs'));
      const value = `maple~${randomBytes(8).toString('hex')}`;
      if (!(await storeSecret(server, 'of-another-pool', value))) throw new Error('an ordinary secret was refused');
      await machine.log(1, `is it ${value} perhaps`);
      const lines = await until('the line', async () => {
        const { items } = await server.client.call('node-logs', {
          params: { id: machine.node_id },
          query: { limit: 10 },
        });
        return items.length > 0 ? items : undefined;
      });
      return !lines.some(({ line }) => line.includes(value));
    },
  },
  {
    name: 'secrets: confirms a guess at a short secret in a fact about its machine',
    without: [
      {
        file: 'src/contract/security/secret-values.ts',
        find: 'minSecretLength = 16;',
        replace: 'minSecretLength = 8;',
      },
    ],
    async succeeds(server) {
      const value = `pin-${randomBytes(3).toString('hex')}`;
      if (!(await storeSecret(server, 'short', value))) return false;
      const machine = await startMachine(server.url, await createPoolToJoin(server, 'guesses-facts'));
      const fact = { at: '2030-01-01T00:00:00Z', layer: 'node', kind: 'app.guess', summary: `is it ${value} perhaps` };
      await machine.call('agent-evidence', { body: { facts: [fact] } });
      const storedFact = await until('the fact', async () => {
        const { items } = await server.client.call('node-timeline', { params: { id: machine.node_id }, query: {} });
        return items.find(({ kind }) => kind === 'app.guess');
      });
      return !storedFact.summary.includes(value);
    },
  },
];
