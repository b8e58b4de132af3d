/**
 * Simulates a client that makes changes during the whole run: it requests machines and announces
 * new ones. Every acknowledged change must exist at the end. An unanswered change may or may not
 * exist.
 */
import { pause, systemClock } from '../../src/base/clock.ts';
import { createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import type { Database } from '../../src/store/pg/database.ts';
import { adminToken } from './scene.ts';

/** Both pools have an even number, and so free machines; see `fillFleet`. */
const pools = { requested: 'pool-2', announced: 'pool-4' };
const everyMs = 250;
const settleMs = 90_000;

export interface WriteResult {
  acknowledged: number;
  refused: number;
  /** Changes that were acknowledged but do not exist. */
  lost: string[];
  /** Allocations that were acknowledged but are not active yet. */
  unfinished: string[];
}

export interface Writer {
  end(db: Database): Promise<WriteResult>;
}

export function startWriter(urlNow: () => string): Writer {
  const allocations: string[] = [];
  const nodes: string[] = [];
  let refused = 0;
  let isOver = false;

  const write = async (turn: number) => {
    const client = createClient({ base_url: urlNow(), token: adminToken, addresses: routes, retries: 0 });
    try {
      if (turn % 2 === 0) {
        const { allocation } = await client.call('allocation-create', { body: { pool: pools.requested } });
        allocations.push(allocation.allocation_id);
      } else {
        const { node } = await client.call('node-create', {
          body: { pool: pools.announced, name: `announced-${turn}` },
        });
        nodes.push(node.node_id);
      }
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      refused++;
    }
  };
  const run = async () => {
    for (let turn = 0; !isOver; turn++) {
      await write(turn);
      await pause(systemClock, everyMs);
    }
  };
  const running = run();

  const findMissing = async (db: Database, table: string, key: string, ids: string[]): Promise<string[]> => {
    const rows = await db.query<{ id: string }>(`select ${key} as id from ${table} where ${key} = any($1)`, [ids]);
    const existingIds = new Set(rows.map(({ id }) => id));
    return ids.filter((id) => !existingIds.has(id));
  };
  const findInactive = async (db: Database): Promise<string[]> => {
    const rows = await db.query<{ id: string }>(
      `select allocation_id as id from allocations where allocation_id = any($1) and status <> 'active'`,
      [allocations],
    );
    return rows.map(({ id }) => id);
  };

  return {
    async end(db) {
      isOver = true;
      await running;
      const untilMs = systemClock.monotonicMs() + settleMs;
      while ((await findInactive(db)).length > 0 && systemClock.monotonicMs() < untilMs) await pause(systemClock, 200);
      return {
        acknowledged: allocations.length + nodes.length,
        refused,
        lost: [
          ...(await findMissing(db, 'allocations', 'allocation_id', allocations)),
          ...(await findMissing(db, 'nodes', 'node_id', nodes)),
        ],
        unfinished: await findInactive(db),
      };
    },
  };
}
