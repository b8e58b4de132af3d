/**
 * A fleet in the store on a virtual clock. Tests run rules at any chosen time, so they cover hours
 * in seconds.
 */
import { moment, secondsLater } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import { type VirtualClock, virtualClock } from '../../base/virtual-clock.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import { type Database, openDatabase } from '../../store/pg/database.ts';
import type { NodeRow } from '../../store/rows/nodes.ts';
import { declarePool } from '../../store/rows/pools.ts';
import {
  type PlacedNodes,
  placeNodes,
  readPlacedRows,
  storeHeartbeats,
  storeReplica,
} from '../../store/testing/placed-nodes.ts';
import { defaultEnvironment, type TransitionEnvironment } from '../../store/transitions/transition-rules.ts';
import { createRefusals } from '../runner/refusals.ts';
import type { SweepServices } from '../runner/services.ts';

export interface RuleFixture {
  db: Database;
  clock: VirtualClock;
  services: SweepServices;
  environment: TransitionEnvironment;
  /** A time at which all nodes were healthy. */
  start: Date;
  /** The time this many seconds after the start. */
  at(seconds: number): Date;
  declarePool(name: string, document?: Partial<PoolDocument>): Promise<void>;
  /** Adds nodes to a declared pool. Their last heartbeat is at the start unless given. */
  addNodes(wanted: Omit<PlacedNodes, 'since' | 'zone'> & { last_seen_at?: Date }): Promise<NodeId[]>;
  beat(ids: readonly NodeId[], at: Date): Promise<void>;
  /** Makes a replica live and marks its heartbeats as stored up to this time. */
  markStored(through: Date, replica?: string): Promise<void>;
  readNodes(ids: readonly NodeId[]): Promise<NodeRow[]>;
  countStatuses(ids: readonly NodeId[]): Promise<Partial<Record<NodeStatus, number>>>;
  close(): Promise<void>;
}

export const staleSeconds = 30;
const heartbeat = { interval_seconds: 10, stale_after_seconds: staleSeconds };
/** How long nodes have been in their status at the start. */
const statusAgeSeconds = 3600;

/** Opens a fixture on the database of a test, and drops that database when closed. */
export function ruleFixture(database: { url: string; drop(): Promise<void> }): RuleFixture {
  const db = openDatabase({ url: database.url });
  const clock = virtualClock();
  const start = moment(clock.nowMs());
  const zones = new Map<string, string>();
  const nodesPerPool = new Map<string, number>();
  const environment: TransitionEnvironment = { ...defaultEnvironment };
  const services = {
    db,
    clock,
    environment,
    executor: { replica_id: 'rep_test', epoch: '1' },
    ingest: {
      isSteady: () => true,
      isClockSettled: () => true,
      tightestStaleSeconds: () => staleSeconds,
      check: async () => ({ gap: false }),
    },
    refusals: createRefusals(),
    log: { warn() {} },
    // Every node is a suspect, so that the rule itself must tell which ones are silent.
    suspects: {
      list: async () => (await readPlacedRows(db)).map(({ node_id }) => ({ node_id, due_ms: 0 })),
      everySeconds: () => 1,
    },
  } as unknown as SweepServices;

  const fixture: RuleFixture = {
    db,
    clock,
    services,
    environment,
    start,
    at: (seconds) => secondsLater(start, seconds),
    async declarePool(name, document = {}) {
      if (document.zone) zones.set(name, document.zone);
      await db.transaction((tx) => declarePool(tx, name, { driver: 'external', ...document }, start));
    },
    async addNodes({ last_seen_at = start, ...wanted }) {
      const after = nodesPerPool.get(wanted.pool) ?? 0;
      nodesPerPool.set(wanted.pool, after + wanted.count);
      const since = secondsLater(start, -statusAgeSeconds);
      const ids = await placeNodes(db, { ...wanted, zone: zones.get(wanted.pool) ?? null, after, since });
      await fixture.beat(ids, last_seen_at);
      return ids;
    },
    beat: (ids, at) => storeHeartbeats(db, ids, heartbeat, at),
    markStored: (through, replica = 'rep_test') => storeReplica(db, replica, through),
    readNodes: (ids) => readPlacedRows(db, ids),
    async countStatuses(ids) {
      const counted: Partial<Record<NodeStatus, number>> = {};
      for (const { status } of await fixture.readNodes(ids)) counted[status] = (counted[status] ?? 0) + 1;
      return counted;
    },
    async close() {
      await db.close();
      await database.drop();
    },
  };
  return fixture;
}
