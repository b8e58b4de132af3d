/**
 * Creates a fleet of any size in the database of a real server. SQL inserts the machines with a
 * creation time one hour ago. Afterwards the machines change through the store's transitions, which
 * the server publishes as usual.
 */
import { now, pause, secondsLater, systemClock } from '../../../src/base/clock.ts';
import type { NodeId } from '../../../src/base/ids.ts';
import { openDatabase } from '../../../src/store/pg/database.ts';
import { declarePool } from '../../../src/store/rows/pools.ts';
import { placeNodes, storeHeartbeats } from '../../../src/store/testing/placed-nodes.ts';
import type { NodeMove } from '../../../src/store/transitions/node-move.ts';
import { transition } from '../../../src/store/transitions/node-transition.ts';
import { defaultEnvironment } from '../../../src/store/transitions/transition-rules.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';

const pools = ['web', 'gpu', 'edge', 'batch', 'cache'];
const zones = ['eu-0', 'eu-1'];
/** The stale time is so long that only `steps` takes machines offline. */
const heartbeat = { interval_seconds: 3600, stale_after_seconds: 6 * 3600 };

/** Each change moves a machine one step further. After three steps the machine is ready again. */
const steps: Omit<NodeMove, 'node_id'>[] = [
  { to: 'degraded', by: 'degraded', reason: 'the machine reported errors' },
  { to: 'offline', by: 'liveness', reason: 'the machine sent no heartbeats' },
  { to: 'ready', by: 'heartbeat-returned', reason: 'the heartbeats resumed' },
];

const tickMs = 40;

export interface RealFleet {
  server: SpawnedServer;
  /** Adds machines until there are `total`, which must be a multiple of ten. */
  grow(total: number): Promise<void>;
  /** The number of machines by status, computed from the changes made so far. */
  countByStatus(): Record<string, number>;
  /** Makes `per_second` changes a second for `seconds`, and returns how many it made. */
  change(per_second: number, seconds: number): Promise<number>;
  stop(): Promise<void>;
}

export async function startRealFleet(): Promise<RealFleet> {
  const server = await spawnServer();
  const db = openDatabase({ url: server.database_url, max_connections: 2 });
  const createdAt = secondsLater(now(systemClock), -3600);
  const ids: NodeId[] = [];
  /** The number of changes of each machine, in the order of `ids`. */
  const changeCounts: number[] = [];
  let changeNumber = 0;
  for (const pool of pools) await db.transaction((tx) => declarePool(tx, pool, { driver: 'external' }, createdAt));

  const nextMove = (): NodeMove => {
    // The prime stride spreads the changes over the fleet and visits every machine once per round.
    const index = (changeNumber++ * 7919) % ids.length;
    const [node_id, changeCount] = [ids[index], changeCounts[index] ?? 0];
    const step = steps[changeCount % steps.length];
    if (!node_id || !step) throw new Error('the fleet is empty');
    changeCounts[index] = changeCount + 1;
    return { ...step, node_id };
  };

  return {
    server,
    async grow(total) {
      const perPoolAndZone = (total - ids.length) / pools.length / zones.length;
      const existingPerPool = ids.length / pools.length;
      for (const pool of pools)
        for (const [i, zone] of zones.entries()) {
          const labels = { rack: `${zone}-${pool}` };
          const placedCount = existingPerPool + i * perPoolAndZone;
          ids.push(
            ...(await placeNodes(db, {
              pool,
              zone,
              labels,
              count: perPoolAndZone,
              after: placedCount,
              since: createdAt,
            })),
          );
        }
      await storeHeartbeats(db, ids, heartbeat, now(systemClock));
      for (const table of ['nodes', 'instances', 'heartbeats']) await db.query(`vacuum (analyze) ${table}`);
    },
    countByStatus() {
      const counts: Record<string, number> = {};
      for (const index of ids.keys()) {
        const { to } = steps[((changeCounts[index] ?? 0) + steps.length - 1) % steps.length] ?? { to: 'ready' };
        counts[to] = (counts[to] ?? 0) + 1;
      }
      return counts;
    },
    async change(per_second, seconds) {
      let changesMade = 0;
      const startedMs = systemClock.nowMs();
      for (let passedMs = 0; passedMs < seconds * 1000; passedMs = systemClock.nowMs() - startedMs) {
        const moves = Array.from({ length: Math.round((passedMs / 1000) * per_second) - changesMade }, nextMove);
        if (moves.length > 0) {
          const outcomes = await db.transaction((tx) => transition(tx, moves, now(systemClock), defaultEnvironment));
          const refusedMove = outcomes.find(({ moved }) => !moved);
          if (refusedMove && !refusedMove.moved) throw new Error(`the transition was refused: ${refusedMove.because}`);
          changesMade += moves.length;
        }
        await pause(systemClock, tickMs);
      }
      return changesMade;
    },
    async stop() {
      await db.close();
      await server.stop();
    },
  };
}
