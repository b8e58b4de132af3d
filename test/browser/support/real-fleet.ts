/**
 * A fleet of any size in a real database behind a real server. Machines are inserted by SQL, as if
 * they had existed for months. From then on they change through the store's transitions, and the
 * server publishes that as usual.
 */
import { now, pause, secondsLater, systemClock } from '../../../src/base/clock.ts';
import type { NodeId } from '../../../src/base/ids.ts';
import { openDatabase } from '../../../src/store/pg/database.ts';
import { declarePool } from '../../../src/store/rows/pools.ts';
import { beatAs, placeNodes } from '../../../src/store/testing/placed-nodes.ts';
import type { NodeMove } from '../../../src/store/transitions/node-move.ts';
import { transition } from '../../../src/store/transitions/node-transition.ts';
import { defaultEnvironment } from '../../../src/store/transitions/transition-rules.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';

const pools = ['web', 'gpu', 'edge', 'batch', 'cache'];
const zones = ['eu-0', 'eu-1'];
/** No machine goes silent while measuring. */
const heartbeat = { interval_seconds: 3600, stale_after_seconds: 6 * 3600 };

/** Each change moves a machine one step; after three it is back where it was. */
const steps: Omit<NodeMove, 'node_id'>[] = [
  { to: 'degraded', by: 'degraded', reason: 'it reported errors' },
  { to: 'offline', by: 'liveness', reason: 'it fell silent' },
  { to: 'ready', by: 'heartbeat-returned', reason: 'its heartbeats resumed' },
];

const tickMs = 40;

export interface RealFleet {
  server: SpawnedServer;
  /** Adds machines up to this number, which must be a multiple of ten. */
  grow(count: number): Promise<void>;
  /** The number of machines by status, after all changes. */
  counts(): Record<string, number>;
  /** Makes this many changes a second and returns how many were made. */
  change(per_second: number, seconds: number): Promise<number>;
  stop(): Promise<void>;
}

export async function realFleet(): Promise<RealFleet> {
  const server = await spawnServer();
  const db = openDatabase({ url: server.database_url, max_connections: 2 });
  const born = secondsLater(now(systemClock), -3600);
  const ids: NodeId[] = [];
  const changed: number[] = [];
  let turn = 0;
  for (const pool of pools) await db.transaction((tx) => declarePool(tx, pool, { driver: 'external' }, born));

  const next = (): NodeMove => {
    // A prime stride spreads the changes over the whole fleet and comes back to the same machines.
    const at = (turn++ * 7919) % ids.length;
    const [node_id, before] = [ids[at], changed[at] ?? 0];
    const step = steps[before % steps.length];
    if (!node_id || !step) throw new Error('the fleet is empty');
    changed[at] = before + 1;
    return { ...step, node_id };
  };

  return {
    server,
    async grow(count) {
      const share = (count - ids.length) / pools.length / zones.length;
      const known = ids.length / pools.length;
      for (const pool of pools)
        for (const [i, zone] of zones.entries()) {
          const labels = { rack: `${zone}-${pool}` };
          const placed = { pool, zone, labels, count: share, after: known + i * share, since: born };
          ids.push(...(await placeNodes(db, placed)));
        }
      await beatAs(db, ids, heartbeat, now(systemClock));
      for (const table of ['nodes', 'instances', 'heartbeats']) await db.query(`vacuum (analyze) ${table}`);
    },
    counts() {
      const counts: Record<string, number> = {};
      for (const at of ids.keys()) {
        const { to } = steps[((changed[at] ?? 0) + steps.length - 1) % steps.length] ?? { to: 'ready' };
        counts[to] = (counts[to] ?? 0) + 1;
      }
      return counts;
    },
    async change(per_second, seconds) {
      let made = 0;
      const begunMs = systemClock.nowMs();
      for (let passedMs = 0; passedMs < seconds * 1000; passedMs = systemClock.nowMs() - begunMs) {
        const moves = Array.from({ length: Math.round((passedMs / 1000) * per_second) - made }, next);
        if (moves.length > 0) {
          const outcomes = await db.transaction((tx) => transition(tx, moves, now(systemClock), defaultEnvironment));
          const refused = outcomes.find(({ moved }) => !moved);
          if (refused && !refused.moved) throw new Error(`the transition was refused: ${refused.because}`);
          made += moves.length;
        }
        await pause(systemClock, tickMs);
      }
      return made;
    },
    async stop() {
      await db.close();
      await server.stop();
    },
  };
}
