/**
 * The queries of the sweeps, the API and the agents use an index on a large fleet, so their cost
 * does not grow with the number of retired nodes and past operations.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../test/support/store.ts';
import { secondsLater } from '../base/clock.ts';
import { type AllocationId, firstIdAt, type NodeId, type NodeInstanceId } from '../base/ids.ts';
import { allocationStatuses, allocationStatusNames, nodeStatuses, nodeStatusNames } from '../lifecycle/model/states.ts';
import { tenantOnly, wholeFleet } from '../lifecycle/visibility.ts';
import { instanceByCredential } from './agents/instances.ts';
import { expireLeases, leaseNext } from './agents/tasks.ts';
import { readHeadCursor } from './evidence/commit-order.ts';
import { readAfter, readTimeline } from './evidence/evidence.ts';
import { findRunningOperations, lockQueuedOperations } from './operations/executions.ts';
import { listOpenOperations } from './operations/open-operations.ts';
import { listOperations } from './operations/operations.ts';
import type { Database, Queryable, Transaction } from './pg/database.ts';
import { readPruneRecord } from './retention/pruned.ts';
import { walks } from './retention/walks.ts';
import { findHolders, listAllocations } from './rows/allocations.ts';
import { countByStatus } from './rows/counts.ts';
import { readFencedAges } from './rows/fenced-ages.ts';
import { resolveId } from './rows/find.ts';
import { listNodes } from './rows/fleet/node-list.ts';
import { lockFreeNodes } from './rows/free-nodes.ts';
import { listPools } from './rows/pools.ts';
import { findAgentlessMachinesToInspect } from './supervision/agentless-machines.ts';
import { lockDueAllocations, lockDueNodes, lockRetryableReleases } from './supervision/past-deadline.ts';
import { findNodesToProbe } from './supervision/probes.ts';
import { type Fleet, testFleet } from './testing/fleet.ts';
import { transition } from './transitions/node-transition.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
});

afterAll(() => store.close());

interface Plan {
  'Node Type': string;
  'Relation Name'?: string;
  Plans?: Plan[];
}

/** The tables that a plan reads with a sequential scan. */
const scannedTables = (plan: Plan): string[] => [
  ...(plan['Node Type'] === 'Seq Scan' && plan['Relation Name'] ? [plan['Relation Name']] : []),
  ...(plan.Plans ?? []).flatMap(scannedTables),
];

describe('on a large, idle fleet', () => {
  const nodeCount = 50_000;
  const chunkSize = 2_500;
  const largeTables = [
    'nodes',
    'instances',
    'heartbeats',
    'allocations',
    'operations',
    'tasks',
    'evidence_workflow_rest',
  ];

  beforeAll(async () => {
    const now = fleet.now();
    // One node in five is ready, the others are retired, and nothing is due. The rows are inserted
    // in chunks, because a long transaction delays readers of evidence in other tests on the same
    // server.
    const fill = async (text: string) => {
      for (let from = 1; from <= nodeCount; from += chunkSize) {
        await db.query(text.replace('generate_series(1, $size)', `generate_series(${from}, ${from + chunkSize - 1})`), [
          now,
        ]);
      }
    };
    await fill(`insert into nodes (node_id, pool, pool_generation, name, status, status_since, node_instance_id, created_at)
      select 'node_idle_' || i, 'test', 1, 'idle-' || i, case when i % 5 = 0 then 'ready' else 'retired' end, $1, 'inst_idle_' || i, $1
      from generate_series(1, $size) as i`);
    await fill(`insert into instances (node_instance_id, node_id, attempt, credential_hash, created_at)
      select 'inst_idle_' || i, 'node_idle_' || i, 1, ('credential ' || i)::bytea, $1 from generate_series(1, $size) as i`);
    await fill(`insert into heartbeats (node_instance_id, last_seen_at, interval_seconds, stale_seconds)
      select 'inst_idle_' || i, $1, 10, 30 from generate_series(1, $size) as i`);
    await fill(`insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, correlation_id, created_at)
      select 'alloc_idle_' || i, 'test', 'node_idle_' || i, 'tenant-' || i % 100,
        case when i % 10 = 0 then 'active' else 'released' end, $1, 'c', $1 from generate_series(1, $size) as i`);
    await fill(`insert into operations (workflow_id, kind, revision, status, node_id, allocation_id, correlation_id, replica_id, created_at)
      select 'op_idle_' || i, 'test', 1, 'succeeded', 'node_idle_' || i, 'alloc_idle_' || i, 'c', 'rep_idle', $1 from generate_series(1, $size) as i`);
    await fill(`insert into tasks (task_id, node_id, node_instance_id, type, params, status, lease_seconds, expires_at, created_at)
      select 'task_idle_' || i, 'node_idle_' || i, 'inst_idle_' || i, 'a', '{}', 'succeeded', 10, $1, $1 from generate_series(1, $size) as i`);
    await fill(`insert into evidence (at, layer, kind, summary, node_id, node_instance_id, correlation_id, allocation_id, workflow_id)
      select $1, 'workflow', 'test.idle', 'idle', 'node_idle_' || i, 'inst_idle_' || i, 'c' || i, 'alloc_idle_' || i, 'op_idle_' || i
      from generate_series(1, $size) as i`);
    for (const table of [...largeTables, 'evidence']) await db.query(`analyze ${table}`);
  });

  /** Explains every statement of a store function and returns the large tables it scans. */
  async function largeTablesScanned(work: (tx: Transaction) => Promise<unknown>): Promise<string[]> {
    const scanned: string[] = [];
    let explained = 0;
    await db.transaction(async (tx) => {
      await work({
        ...tx,
        query: async (text, values) => {
          const [row] = await tx.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>(`explain (format json) ${text}`, values);
          explained++;
          if (row)
            scanned.push(...scannedTables(row['QUERY PLAN'][0].Plan).filter((table) => largeTables.includes(table)));
          return tx.query(text, values);
        },
      });
    });
    expect(explained).toBeGreaterThan(0);
    return scanned;
  }

  const node_id = 'node_idle_7' as NodeId;
  const allocation_id = 'alloc_idle_7' as AllocationId;
  // A month later, so that every time limit has passed.
  const later = () => secondsLater(fleet.now(), 3600 * 24 * 30);
  const everything = { visibility: wholeFleet, limit: 50 };

  const cases: Record<string, (tx: Transaction) => Promise<unknown>> = {
    ...Object.fromEntries(
      nodeStatusNames
        .filter((status) => nodeStatuses[status].deadline)
        .map((status) => [
          `due nodes that are ${status}`,
          (tx: Transaction) => lockDueNodes(tx, { status, now: later() }, 500),
        ]),
    ),
    ...Object.fromEntries(
      allocationStatusNames
        .filter((status) => allocationStatuses[status].deadline)
        .map((status) => [
          `due allocations that are ${status}`,
          (tx: Transaction) => lockDueAllocations(tx, status, later(), 500),
        ]),
    ),
    'releases to retry': (tx) => lockRetryableReleases(tx, later(), 20),
    'expired leases': (tx) => expireLeases(tx, later(), 500),
    'the next task': (tx) => leaseNext(tx, 'inst_idle_7' as NodeInstanceId, later(), 'all'),
    'a task that never arrived': (tx) =>
      leaseNext(tx, 'inst_idle_7' as NodeInstanceId, later(), 'all', { polled_at: later(), idle: true }),
    'queued operations': (tx) => lockQueuedOperations(tx, 100, [{ kind: 'node-provision', revision: 1 }]),
    'operations that a replica runs': (tx) => findRunningOperations(tx, 'rep_idle', { node_id }),
    'open operations of an allocation': (tx) => listOpenOperations(tx, allocation_id),
    'a free node': (tx) => lockFreeNodes(tx, 'test', 1, later(), new Map()),
    'free nodes': (tx) => lockFreeNodes(tx, 'test', 100, later(), new Map()),
    'agentless machines of a driver without pools': (tx) =>
      findAgentlessMachinesToInspect(tx, ['unused-driver'], [], later(), 32),
    'nodes to probe': (tx) => findNodesToProbe(tx, [node_id], later(), 500),
    'holders of nodes': (tx) => findHolders(tx, [node_id]),
    'a transition': (tx) =>
      transition(
        tx,
        [{ node_id: 'node_idle_10' as NodeId, to: 'offline', by: 'liveness', reason: 'silent' }],
        later(),
        fleet.environment,
      ),
    'the list of nodes': (tx) => listNodes(tx, everything),
    'the ready nodes of a pool': (tx) => listNodes(tx, { ...everything, pool: 'test', status: 'ready' }),
    'the nodes of a pool in any status': (tx) => listNodes(tx, { ...everything, pool: 'test' }),
    'the nodes in a status': (tx) => listNodes(tx, { ...everything, status: 'failed', sort: 'oldest' }),
    'the nodes that are held': (tx) => listNodes(tx, { ...everything, held: true }),
    'the nodes of a tenant': (tx) => listNodes(tx, { ...everything, visibility: tenantOnly('tenant-7') }),
    'a search for nodes': (tx) => listNodes(tx, { ...everything, q: 'nowhere' }),
    'the allocations of a pool': (tx) => listAllocations(tx, { ...everything, pool: 'test' }, later()),
    'the allocations with a label': (tx) => listAllocations(tx, { ...everything, label: 'team=none' }, later()),
    'the operations of a tenant': (tx) =>
      listOperations(tx, { ...everything, visibility: tenantOnly('tenant-7') }, later()),
    'the operations of a kind': (tx) => listOperations(tx, { ...everything, kind: 'node-provision' }, later()),
    'the resolution of a name': (tx) => resolveId(tx, 'nowhere', wholeFleet),
    'the counts of nodes, fenced instances and pools': async (tx) => {
      await countByStatus(tx);
      await readFencedAges(tx);
      await listPools(tx);
    },
    'the list of allocations': (tx) => listAllocations(tx, everything, later()),
    'the allocations of a tenant': (tx) =>
      listAllocations(tx, { ...everything, visibility: tenantOnly('tenant-7') }, later()),
    'the allocations of a status': (tx) => listAllocations(tx, { ...everything, status: 'release_failed' }, later()),
    'the list of operations': (tx) => listOperations(tx, everything, later()),
    'the operations of a node': (tx) => listOperations(tx, { ...everything, node_id }, later()),
    'the operations of an allocation': (tx) => listOperations(tx, { ...everything, allocation_id }, later()),
    'the operations of a status': (tx) => listOperations(tx, { ...everything, status: 'running' }, later()),
    'the credential of an agent': (tx) => instanceByCredential(tx, 'nobody', later()),
    'the head of the evidence': (tx) => readHeadCursor(tx),
    'the tail of the evidence': async (tx) => readAfter(tx, await readHeadCursor(tx), 500),
    ...Object.fromEntries(
      (['node_id', 'node_instance_id', 'correlation_id', 'allocation_id', 'workflow_id'] as const).map((id) => [
        `the timeline of a ${id}`,
        (tx: Transaction) => readTimeline(tx, { visibility: wholeFleet, [id]: 'node_idle_7', limit: 100 }),
      ]),
    ),
    ...Object.fromEntries(
      walks.flatMap((walk) => [
        [
          `the ${walk.id_kind} ids that retention of ${walk.class} looks at`,
          (tx: Transaction) => tx.query(walk.page, ['', firstIdAt(walk.id_kind, later())]),
        ],
        [
          `the ${walk.id_kind} rows that retention of ${walk.class} deletes`,
          (tx: Transaction) => tx.query(walk.prune, [[firstIdAt(walk.id_kind, later())], later()]),
        ],
      ]),
    ),
    'the evidence of a deleted node': (tx) => readPruneRecord(tx, 'node', node_id, wholeFleet),
    'the evidence of a deleted allocation': (tx) => readPruneRecord(tx, 'allocation', allocation_id, wholeFleet),
    'the audit': (tx) => readTimeline(tx, { visibility: wholeFleet, audited: true, limit: 100 }),
  };

  test.for(Object.keys(cases))('reads no large table with a sequential scan: %s', async (name) => {
    expect(await largeTablesScanned(cases[name] ?? (async () => {}))).toEqual([]);
  });

  test('reads the evidence of a deleted node only from the partitions of layer store, and not at all for a tenant', async () => {
    const plans: string[] = [];
    const explaining: Queryable = {
      ...db,
      query: async (text, values) => {
        plans.push(JSON.stringify(await db.query(`explain (format json) ${text}`, values)));
        return [];
      },
    };
    await readPruneRecord(explaining, 'node', node_id, tenantOnly('tenant-7'));
    expect(plans).toEqual([]);
    await readPruneRecord(explaining, 'node', node_id, wholeFleet);
    expect(plans).toEqual([expect.stringContaining('"evidence_store')]);
    expect(plans[0]).not.toContain('"evidence_workflow');
  });

  test('the check above detects a sequential scan', async () => {
    expect(await largeTablesScanned((tx) => tx.query(`select * from nodes where endpoint = 'nowhere'`))).toEqual([
      'nodes',
    ]);
  });
});
