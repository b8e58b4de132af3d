/** Tests the metrics of stuck nodes and releases, open findings, and event streams. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type TestStore, testStore } from '../../test/support/store.ts';
import { moment, secondsLater, systemClock } from '../base/clock.ts';
import { createLatencies } from '../base/telemetry/latencies.ts';
import { virtualClock } from '../base/virtual-clock.ts';
import { noShortage } from '../lifecycle/limits/overload.ts';
import { type Database, openDatabase } from '../store/pg/database.ts';
import { noteDisagreements } from '../store/rows/findings.ts';
import { declarePool } from '../store/rows/pools.ts';
import { placeNodes } from '../store/testing/placed-nodes.ts';
import { createMetrics } from './metrics.ts';

const clock = virtualClock();
const now = moment(clock.nowMs());
let store: TestStore;
let db: Database;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  await db.transaction((tx) => declarePool(tx, 'gpu', { driver: 'external' }, now));
});
afterAll(() => store.close());

const streams = {
  ...{ readers: 3, filters: 2, batches: 5, facts: 7, bytes: 11, dropped: 1 },
  ...{ tail_seconds: 0, gather_seconds: 0, join_seconds: 0, render_seconds: 0, write_seconds: 0.25 },
};
const replicaFigures = {
  version: '1.2.3',
  sweeps: () => [],
  intake: () => ({ held_bytes: 0, refused: 0 }),
  forwarders: () => [],
  streams: () => streams,
  agentStreams: () => ({ agents: 2, relays: 1 }),
  diskFreeBytes: async () => 5e9,
  backups: { every_seconds: 3600, ageSeconds: () => 90 },
  connections: () => ({ open: 3, closed_unknown: 2, closed_idle: 1, refused: 0 }),
  writeLimits: () => ({
    accounts: 4,
    losses: new Map([['instance', { facts_dropped: 5, requests_refused: 6, reports_coalesced: 7 }]] as const),
  }),
  latencies: createLatencies().metrics,
  databaseConnections: () => new Map([['slipway', { open: 5, busy: 2 }]]),
  waitingForConnection: () => 3,
  tailLagMs: () => 500,
  unstoredBeatsMs: () => 250,
  database: async () => ({ ok: true, state: 'ok', detail: null }) as const,
  overload: () => ({
    ...{ loop_lag_ms: 20, behind_ms: 9_000, beats_per_second: 40, beat_rate: 5_000, ...noShortage },
    ...{ shedding: { reads: true, beats: false, work: false, changes: false, stretch: 1 }, beats: 99, beats_shed: 3 },
    ...{ reads_shed: 2, work_refused: 4 },
  }),
};

test('reports counts and ages of fenced nodes and failed releases, by pool', async () => {
  const scrape = createMetrics(db, clock, replicaFigures);
  const place = (status: 'quarantined' | 'failed' | 'ready', count: number, after: number, seconds: number) =>
    placeNodes(db, { pool: 'gpu', count, after, status, since: secondsLater(now, -seconds) });
  await place('quarantined', 2, 0, 7200);
  await place('quarantined', 1, 2, 60);
  await place('failed', 1, 3, 90);
  await place('ready', 1, 4, 1_000_000);
  await db.query(
    `insert into allocations (allocation_id, pool, tenant, status, status_since, correlation_id, created_at)
     values ('alloc_1', 'gpu', 'default', 'release_failed', $1, 'c', $1)`,
    [secondsLater(now, -600)],
  );
  const text = await scrape('all');
  expect(text).toContain('slipway_fenced_nodes{pool="gpu",status="quarantined"} 3\n');
  expect(text).toContain('slipway_fenced_oldest_seconds{pool="gpu",status="quarantined"} 7200\n');
  expect(text).toContain('slipway_fenced_oldest_seconds{pool="gpu",status="failed"} 90\n');
  expect(text).not.toMatch(/slipway_fenced\w*\{[^}]*status="ready"/);
  expect(text).toContain('slipway_parked_allocations{pool="gpu",status="release_failed"} 1\n');
  expect(text).toContain('slipway_parked_oldest_seconds{pool="gpu",status="release_failed"} 600\n');
  expect(text).toContain('slipway_findings{kind="drift"} 0\n');
  expect(text).toContain('slipway_beats_behind_seconds 0.25\n');
  expect(text).toContain('slipway_shed_total{what="beats"} 3\n');
  expect(text).toContain('slipway_shed_total{what="work"} 4\n');
  expect(text).toContain('slipway_disk_free_bytes 5000000000\n');
  expect(text).toContain('slipway_backup_every_seconds 3600\n');
  expect(text).toContain('slipway_backup_age_seconds 90\n');
  expect(text).toMatch(/slipway_store_bytes\{of="nodes"\} [1-9]/);
});

test('counts open findings', async () => {
  const scrape = createMetrics(db, clock, replicaFigures);
  const disagreement = {
    finding_id: 'find_1',
    what: 'machine_absent' as const,
    subject: 'node_1',
    pool: 'gpu',
    node_id: null,
    node_instance_id: null,
    allocation_id: null,
    ours: {},
    theirs: {},
  };
  const note = (at: Date) =>
    db.transaction((tx) => noteDisagreements(tx, [disagreement], at, at, (passes) => passes > 1));
  await note(now);
  expect(await scrape('all')).toContain('slipway_findings{kind="drift"} 0\n');
  await note(secondsLater(now, 1));
  expect(await scrape('all')).toContain('slipway_findings{kind="drift"} 1\n');
});

test('reports stream readers and their cost', async () => {
  const text = await createMetrics(db, clock, replicaFigures)('all');
  for (const line of [
    'readers 3',
    'questions 2',
    'dropped_total 1',
    'facts_total 7',
    'seconds_total{part="write"} 0.25',
  ])
    expect(text).toContain(`\nslipway_stream_${line}\n`);
});

test('renders the figures of this replica while the database is away', async () => {
  const unreachable = openDatabase({ url: 'postgres://somebody@127.0.0.1:1/nothing' });
  onTestFinished(() => unreachable.close());
  const text = await createMetrics(unreachable, systemClock, replicaFigures)('all');
  expect(text).toContain('slipway_beats_behind_seconds 0.25\n');
  expect(text).toContain('slipway_database_state{state="unavailable"} 1\n');
  expect(text).toContain('slipway_database_state{state="ok"} 0\n');
  expect(text).not.toMatch(/^slipway_nodes\{/m);
});

test('drops the figures of the fleet once the database is away', async () => {
  let state: 'ok' | 'unavailable' = 'ok';
  const database = async () => ({ ok: state === 'ok', state, detail: null });
  const scrape = createMetrics(db, systemClock, { ...replicaFigures, latencies: [], database });
  const textBefore = await scrape('all');
  expect(textBefore).toContain('slipway_database_state{state="ok"} 1\n');
  expect(textBefore).toMatch(/^slipway_nodes\{/m);
  state = 'unavailable';
  const textAfter = await scrape('all');
  expect(textAfter).toContain('slipway_database_state{state="unavailable"} 1\n');
  expect(textAfter).not.toMatch(/^slipway_nodes\{/m);
});

test('omits the fleet for an unchecked caller, even during a scrape that includes it', async () => {
  const scrape = createMetrics(db, systemClock, { ...replicaFigures, latencies: [] });
  await scrape('all');
  const [all, own] = await Promise.all([scrape('all'), scrape('replica')]);
  expect(all).toMatch(/^slipway_nodes\{/m);
  expect(own).toContain('slipway_beats_behind_seconds 0.25\n');
  expect(own).toContain('slipway_database_state{state="ok"} 1\n');
  expect(own).not.toMatch(/^slipway_(nodes|allocations|operations|pool|store)/m);
});

test('reports the capacity of pools, connections to the database, the lag of the tail, and latencies', async () => {
  await db.transaction((tx) => declarePool(tx, 'bounded', { driver: 'external', max_nodes: 7 }, now));
  await placeNodes(db, { pool: 'bounded', count: 2, after: 100, status: 'ready', since: now });
  const latencies = createLatencies();
  latencies.observeCall('node-list', 0.05);
  latencies.observeOperation('node-provision', 30);
  const text = await createMetrics(db, systemClock, { ...replicaFigures, latencies: latencies.metrics })('all');
  for (const line of [
    'slipway_pool_nodes{pool="bounded",state="live"} 2',
    'slipway_pool_nodes{pool="bounded",state="free"} 2',
    'slipway_pool_max_nodes{pool="bounded"} 7',
    'slipway_database_connections{of="slipway",state="open"} 5',
    'slipway_database_connections{of="slipway",state="busy"} 2',
    'slipway_database_waiting 3',
    'slipway_tail_lag_seconds 0.5',
    `slipway_build_info{version="1.2.3",node="${process.version}"} 1`,
    'slipway_http_request_seconds_bucket{le="0.01",route="node-list"} 0',
    'slipway_http_request_seconds_bucket{le="0.1",route="node-list"} 1',
    'slipway_operation_seconds_bucket{le="60",kind="node-provision"} 1',
  ])
    expect(text).toContain(`${line}\n`);
});
