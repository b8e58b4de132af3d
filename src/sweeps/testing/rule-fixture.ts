/**
 * A fleet in the store and rules that run at any chosen time, so that tests cover hours in seconds.
 */
import { moment, secondsLater } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import { type VirtualClock, virtualClock } from '../../base/virtual-clock.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import { type Database, openDatabase } from '../../store/pg/database.ts';
import type { NodeRow } from '../../store/rows/nodes.ts';
import { declarePool } from '../../store/rows/pools.ts';
import { beatAs, hearThrough, type PlacedNodes, placedRows, placeNodes } from '../../store/testing/placed-nodes.ts';
import { defaultEnvironment, type TransitionEnvironment } from '../../store/transitions/transition-rules.ts';
import { createRefusals } from '../runner/refusals.ts';
import type { SweepServices } from '../runner/services.ts';

export interface Stage {
  db: Database;
  clock: VirtualClock;
  services: SweepServices;
  environment: TransitionEnvironment;
  /** A time at which all nodes were healthy. */
  start: Date;
  /** Seconds after the start. */
  at(seconds: number): Date;
  pool(name: string, document?: Partial<PoolDocument>): Promise<void>;
  /** The nodes beat at the start by default. */
  nodes(wanted: Omit<PlacedNodes, 'since' | 'zone'> & { last_seen_at?: Date }): Promise<NodeId[]>;
  beat(ids: readonly NodeId[], at: Date): Promise<void>;
  hear(through: Date, replica?: string): Promise<void>;
  rows(ids: readonly NodeId[]): Promise<NodeRow[]>;
  statuses(ids: readonly NodeId[]): Promise<Partial<Record<NodeStatus, number>>>;
  close(): Promise<void>;
}

export const staleSeconds = 30;
const heartbeat = { interval_seconds: 10, stale_after_seconds: staleSeconds };
const standingSeconds = 3600;

/** Uses the test's own database, which is dropped at the end. */
export function ruleStage(database: { url: string; drop(): Promise<void> }): Stage {
  const db = openDatabase({ url: database.url });
  const clock = virtualClock();
  const start = moment(clock.nowMs());
  const zones = new Map<string, string>();
  const made = new Map<string, number>();
  const environment: TransitionEnvironment = { ...defaultEnvironment };
  const services = {
    db,
    clock,
    environment,
    executor: { replica_id: 'rep_test', epoch: '1' },
    ingest: { isSteady: () => true, tightestStaleSeconds: () => staleSeconds, check: async () => ({ gap: false }) },
    refusals: createRefusals(),
    log: { warn() {} },
    // Any node may have fallen silent; the rule finds out which.
    suspects: {
      at: async () => (await placedRows(db)).map(({ node_id }) => ({ node_id, due_ms: 0 })),
      everySeconds: () => 1,
    },
  } as unknown as SweepServices;

  const stage: Stage = {
    db,
    clock,
    services,
    environment,
    start,
    at: (seconds) => secondsLater(start, seconds),
    async pool(name, document = {}) {
      if (document.zone) zones.set(name, document.zone);
      await db.transaction((tx) => declarePool(tx, name, { driver: 'external', ...document }, start));
    },
    async nodes({ last_seen_at = start, ...wanted }) {
      const after = made.get(wanted.pool) ?? 0;
      made.set(wanted.pool, after + wanted.count);
      const since = secondsLater(start, -standingSeconds);
      const ids = await placeNodes(db, { ...wanted, zone: zones.get(wanted.pool) ?? null, after, since });
      await stage.beat(ids, last_seen_at);
      return ids;
    },
    beat: (ids, at) => beatAs(db, ids, heartbeat, at),
    hear: (through, replica = 'rep_test') => hearThrough(db, replica, through),
    rows: (ids) => placedRows(db, ids),
    async statuses(ids) {
      const counted: Partial<Record<NodeStatus, number>> = {};
      for (const { status } of await stage.rows(ids)) counted[status] = (counted[status] ?? 0) + 1;
      return counted;
    },
    async close() {
      await db.close();
      await database.drop();
    },
  };
  return stage;
}
