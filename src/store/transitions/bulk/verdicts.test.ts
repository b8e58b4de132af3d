/** Bulk verdicts write the same rows, facts, samples, heartbeats and allocations as transitions. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../../test/support/store.ts';
import { secondsLater } from '../../../base/clock.ts';
import type { PoolDocument } from '../../../contract/pool.ts';
import { isNodeRule, type NodeRuleName } from '../../../lifecycle/model/rules.ts';
import { allocationStatusNames, type NodeStatus } from '../../../lifecycle/model/states.ts';
import { nodeEdges } from '../../../lifecycle/model/transitions.ts';
import type { Database, Row, Transaction } from '../../pg/database.ts';
import { judgedColumns } from '../../rows/judged.ts';
import type { NodeRow } from '../../rows/nodes.ts';
import { declarePool } from '../../rows/pools.ts';
import { type Fleet, testFleet } from '../../testing/fleet.ts';
import { transition } from '../node-transition.ts';
import type { NodeVerdict } from './node-verdict.ts';
import { writeVerdicts } from './verdicts.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;

const pools: PoolDocument[] = [
  { name: 'imaged', driver: 'external', runtime_class: 'hermes', spec: { image: 'debian:12' } },
  { name: 'watched', driver: 'external', mode: 'observe' },
  { name: 'brisk', driver: 'external', budgets: { rescue_seconds: 7.5 }, heartbeat: { interval_seconds: 3 } },
];

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
  for (const pool of pools) await db.transaction((tx) => declarePool(tx, pool.name ?? '', pool, fleet.now()));
});

afterAll(() => store.close());

const ruleEdges = nodeEdges.flatMap(({ from, to, by }) =>
  from === 'new' ? [] : by.filter(isNodeRule).map((rule) => ({ from, to, rule })),
);

const nodeFields = fc.record({
  pool: fc.constantFrom('test', 'imaged', 'watched', 'brisk'),
  zone: fc.constantFrom(null, 'eu-1'),
  workflow_id: fc.constantFrom(null, 'wf_1'),
  budget_seconds: fc.constantFrom(null, 600, 1.25),
  budget_source: fc.constantFrom(null, 'pool', 'request'),
  requested_provision_seconds: fc.constantFrom(null, 90),
  waiting_for: fc.constantFrom(null, 'capacity', 'prerequisite'),
  drain_then: fc.constantFrom(null, 'hold', 'retire'),
  clock_ago: fc.constantFrom(null, 0.5, 86_400),
  registered_ago: fc.constantFrom(null, 0, 33.333),
  sampled: fc.boolean(),
  allocation: fc.constantFrom(null, ...allocationStatusNames.filter((status) => status !== 'requested')),
  reason: fc.constantFrom('it waited 3 s', 'a "quoted" → arrow', "it's late\nvery"),
});

type NodeFields = typeof nodeFields extends fc.Arbitrary<infer T> ? T : never;

async function placeNode(from: NodeStatus, fields: NodeFields): Promise<{ node_id: string; reason: string }> {
  const node = await fleet.node(from);
  // A requested allocation has no node.
  if (fields.allocation) await fleet.allocation(fields.allocation, node);
  const now = fleet.now();
  const ago = (seconds: number | null) => (seconds === null ? null : secondsLater(now, -seconds));
  await db.query(
    `update nodes set
       pool = $2, zone = $3, workflow_id = $4, budget_seconds = $5, budget_source = $6,
       requested_provision_seconds = $7, waiting_for = $8, drain_then = $9, clock_from = $10,
       registered_at = $11, status = $12
     where node_id = $1`,
    [
      node.node_id,
      fields.pool,
      fields.zone,
      fields.workflow_id,
      fields.budget_seconds,
      fields.budget_source,
      fields.requested_provision_seconds,
      fields.waiting_for,
      fields.drain_then,
      ago(fields.clock_ago),
      ago(fields.registered_ago),
      from,
    ],
  );
  if (fields.sampled)
    await db.query(
      `insert into boot_samples (node_instance_id, phase, node_id, pool, pool_generation, started_at, seconds, outcome, at)
       select $1, phase, $2, 'test', 1, $3, 5, 'timed_out', $3
       from unnest(array['provision', 'start']) as phase
       on conflict do nothing`,
      [node.node_instance_id, node.node_id, secondsLater(now, -5)],
    );
  return { node_id: node.node_id, reason: fields.reason };
}

const traceQueries = {
  nodes: 'select * from nodes where node_id = any($1) order by node_id',
  allocations: 'select * from allocations where node_id = any($1) order by allocation_id',
  samples: 'select * from boot_samples where node_id = any($1) order by node_instance_id, phase',
  beats: `
    select beat.*
    from heartbeats beat
    join nodes using (node_instance_id)
    where node_id = any($1)
    order by node_instance_id`,
  facts: `
    select
      at, layer, kind, summary, data, actor, node_id, node_instance_id, correlation_id, allocation_id, workflow_id
    from evidence
    where node_id = any($1)
      and at = $2
    order by node_id, kind, summary, allocation_id`,
};

/** Runs `write` in a transaction, reads all rows it may have written, and rolls back. */
async function collectTraces(
  ids: string[],
  now: Date,
  write: (tx: Transaction, nodes: NodeVerdict['node'][]) => Promise<unknown>,
) {
  const traces: Record<string, Row[]> = {};
  const rollback = new Error('roll back');
  await db
    .transaction(async (tx) => {
      const locked = 'from nodes node where node_id = any($1) order by node_id for update of node';
      const nodes = await tx.query<NodeVerdict['node']>(`select ${judgedColumns} ${locked}`, [ids]);
      await write(tx, nodes);
      for (const [name, sql] of Object.entries(traceQueries))
        traces[name] = await tx.query(sql, sql.includes('$2') ? [ids, now] : [ids]);
      throw rollback;
    })
    .catch((error) => {
      if (error !== rollback) throw error;
    });
  return traces;
}

/** Covers both ways to pass dates: in `moments`, and within `data`. */
const verdictOn = (node: NodeVerdict['node'], to: NodeStatus, reason: string): NodeVerdict => {
  const data = { stale_seconds: 1.5, none: null, waiting_for: node.waiting_for };
  const moments = { last_seen_at: node.registered_at };
  return node.zone === null ? { node, to, reason, data, moments } : { node, to, reason, data: { ...data, ...moments } };
};

const writeByTransition = (tx: Transaction, rule: NodeRuleName, verdicts: NodeVerdict[], now: Date) =>
  transition(
    tx,
    verdicts.map(({ node, to, reason, data, moments }) => ({
      node_id: node.node_id,
      ...(node.node_instance_id && { node_instance_id: node.node_instance_id }),
      from: [node.status],
      to,
      by: rule,
      reason,
      data: { ...data, ...moments },
      allocation_id: node.holder,
    })),
    now,
    fleet.environment,
  );

test.each(ruleEdges)('writes the same as transition() for $rule: $from → $to', async ({ from, to, rule }) => {
  const samples = fc.sample(nodeFields, { numRuns: 25, seed: 7 });
  const reasons = new Map<string, string>();
  for (const sample of samples) {
    const { node_id, reason } = await placeNode(from, sample);
    reasons.set(node_id, reason);
  }
  const ids = [...reasons.keys()];
  const now = fleet.now();
  const judge = (nodes: NodeVerdict['node'][]) =>
    nodes.map((node) => verdictOn(node, to, reasons.get(node.node_id) ?? ''));
  const expected = await collectTraces(ids, now, (tx, nodes) => writeByTransition(tx, rule, judge(nodes), now));
  const written = await collectTraces(ids, now, (tx, nodes) =>
    writeVerdicts(tx, rule, judge(nodes), now, fleet.environment),
  );
  expect(written).toEqual(expected);
  const moved = (expected.nodes as unknown as NodeRow[]).filter((node) => node.status === to);
  expect(moved.length, 'more than half of the nodes moved').toBeGreaterThan(ids.length / 2);
});

test('throws and writes nothing if a row has changed since it was read', async () => {
  const [fields] = fc.sample(nodeFields, { numRuns: 1, seed: 3 });
  const { node_id } = await placeNode('ready', { ...(fields as NodeFields), pool: 'test' });
  const now = fleet.now();
  const stale = collectTraces([node_id], now, async (tx, nodes) => {
    await tx.query("update nodes set status = 'offline' where node_id = $1", [node_id]);
    await writeVerdicts(
      tx,
      'liveness',
      nodes.map((node) => verdictOn(node, 'degraded', 'it was ready a moment ago')),
      now,
      fleet.environment,
    );
  });
  await expect(stale).rejects.toThrow('liveness read 1 nodes, but 0 still had the status that it read');
});

test('drops a verdict without an edge in the table', async () => {
  const { node_id } = await placeNode('ready', fc.sample(nodeFields, { numRuns: 1, seed: 1 })[0] as NodeFields);
  const now = fleet.now();
  const traces = await collectTraces([node_id], now, async (tx, nodes) => {
    const verdicts = nodes.map((node) => verdictOn(node, 'cleaning', 'no such edge'));
    expect(await writeVerdicts(tx, 'provision-deadline', verdicts, now, fleet.environment)).toEqual({
      moved: [],
      observed: 0,
    });
  });
  expect(traces.facts).toEqual([]);
});
