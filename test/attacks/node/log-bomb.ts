/** A machine fills its log with lines that compress to almost nothing. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startMachine } from '../../api/support/machine.ts';
import { openTables } from '../../api/support/tables.ts';
import type { Attack } from '../support/attack.ts';
import { batchTextBytes, shipBomb } from '../support/log-bomb.ts';
import { createPoolToJoin } from './pool.ts';

const megabyte = 1024 * 1024;
const config = join(mkdtempSync(join(tmpdir(), 'slipway-attack-')), 'slipway.yaml');
writeFileSync(config, `logs: {most_bytes_per_node: ${megabyte}}\n`);

/**
 * For servers that limit the log of each node to one megabyte. A line counts with at least an
 * eighth of its size, so at most eight megabytes of text remain.
 */
export const smallLogs = ['--config', config];

const batches = 6;

export const logBombAttacks: Attack[] = [
  {
    name: 'stores more log than its limit allows with lines that compress well',
    without: [
      {
        file: 'src/lifecycle/limits/retention.ts',
        find: 'maxCompressionCredit = 8;',
        replace: 'maxCompressionCredit = 1_000_000;',
      },
    ],
    async succeeds(server) {
      const machine = await startMachine(server.url, await createPoolToJoin(server, 'log-bomb'));
      await shipBomb(machine, batches);
      const tables = await openTables(server.database_url);
      try {
        const [row] = await tables.query<{ raw: string }>(
          'select sum(raw_bytes) as raw from node_log_chunks where node_id = $1',
          [machine.node_id],
        );
        // Trimming may still be in progress, so the product may hold more than eight megabytes for
        // a moment. Five of the six batches are 18 megabytes.
        return Number(row?.raw) > (batches - 1) * batchTextBytes;
      } finally {
        await tables.close();
      }
    },
  },
];
