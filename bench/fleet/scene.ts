/** A store with a fleet in it that was beating until a moment ago, as it is when a server is started again in front of it. */
import { join } from 'node:path';
import { now, secondsLater, systemClock } from '../../src/base/clock.ts';
import { newReplicaId } from '../../src/base/ids.ts';
import { effectiveStaleSeconds } from '../../src/lifecycle/deadlines/budgets.ts';
import { migrate } from '../../src/store/migrate.ts';
import { endReplica, registerReplica } from '../../src/store/operations/replicas.ts';
import { fillFleet } from '../harness/resting-fleet.ts';
import { type Replica, startReplica } from '../harness/server-process.ts';
import { type Store, startStore } from './store.ts';

const leastIntervalSeconds = 10;
const jitter = 0.1;
/** What an interval follows from. */
export interface FleetSize {
  nodes: number;
  /** Beats a second that the servers are set to ask for. */
  rate: number;
}

export const adminToken = 'swt_of-the-bench-and-of-nobody-else';

/** What the server assigns to a fleet of this size at this rate, before its jitter. */
export const intervalSeconds = ({ nodes, rate }: FleetSize): number => Math.max(leastIntervalSeconds, nodes / rate);

/** The longest that anybody may be silent. */
export const longestStaleSeconds = (size: FleetSize): number =>
  effectiveStaleSeconds(0, intervalSeconds(size) * (1 + jitter));

/** Who heard the fleet until then, and has ended: what comes next is a restart, and begins with the gap in which the store was filled. */
async function formerReplica(store: Store, at: Date): Promise<void> {
  const db = store.open();
  const { replica_id } = await registerReplica(db, {
    replica_id: newReplicaId(systemClock),
    host: 'bench',
    pid: 0,
    address: '',
    version: 'bench',
    started_at: secondsLater(at, -3600),
    lease_until: at,
  });
  await db.query('update replicas set flushed_through = $2 where replica_id = $1', [replica_id, at]);
  await endReplica(db, replica_id, at);
  await db.close();
}

export async function openStore(directory: string, size: FleetSize): Promise<Store> {
  const store = await startStore(join(directory, 'store'));
  try {
    const [, , , owner = ''] = store.arguments();
    await migrate(owner);
    const interval_seconds = intervalSeconds(size);
    const pace = { interval_seconds, stale_seconds: effectiveStaleSeconds(0, interval_seconds) };
    const db = store.open();
    const heardUntil = now(systemClock);
    await fillFleet(db, { idle: size.nodes, inFlight: 0, pace });
    await db.close();
    await formerReplica(store, heardUntil);
    return store;
  } catch (error) {
    await store.end();
    throw error;
  }
}

/** `rate`: beats a second that this one is set to ask for. `from`: where another version of it lies. */
export const startServer = (
  directory: string,
  store: Store,
  rate: number,
  name = 'server',
  from?: string,
): Promise<Replica> =>
  startReplica(
    join(directory, name),
    [...store.arguments(), '--beat-rate', String(rate)],
    { SLIPWAY_ADMIN_TOKEN: adminToken },
    from,
  );
