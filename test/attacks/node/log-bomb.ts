/** A machine that fills its log with lines that compress to almost nothing. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startMachine } from '../../api/support/machine.ts';
import { openTables } from '../../api/support/tables.ts';
import type { Attack } from '../support/attack.ts';
import { batchBytes, shipBomb } from '../support/log-bomb.ts';
import { poolToJoin } from './pool.ts';

const megabyte = 1024 * 1024;
const config = join(mkdtempSync(join(tmpdir(), 'slipway-attack-')), 'slipway.yaml');
writeFileSync(config, `logs: {most_bytes_per_node: ${megabyte}}\n`);

/** For servers that keep one megabyte of each node's log. */
export const smallLogs = ['--config', config];

const batches = 6;

export const logBombAttacks: Attack[] = [
  {
    name: 'keeps more of its log than the limit by lines that compress well',
    without: [
      {
        file: 'src/lifecycle/limits/retention.ts',
        find: 'maxCompressionCredit = 8;',
        replace: 'maxCompressionCredit = 1_000_000;',
      },
    ],
    async succeeds(server) {
      const machine = await startMachine(server.url, await poolToJoin(server, 'log-bomb'));
      await shipBomb(machine, batches);
      const tables = await openTables(server.database_url);
      try {
        const [row] = await tables.query<{ raw: string }>(
          'select sum(raw_bytes) as raw from node_log_chunks where node_id = $1',
          [machine.node_id],
        );
        // Trimming may still be in progress. Two batches exceed one batch plus the limit of eight
        // megabytes.
        return Number(row?.raw) > (batches - 1) * batchBytes;
      } finally {
        await tables.close();
      }
    },
  },
];
