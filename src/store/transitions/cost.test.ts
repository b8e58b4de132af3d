/** Tests the number of statements of a transition, and concurrent transitions. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import type { NodeId } from '../../base/ids.ts';
import { allocationEdges, nodeEdges } from '../../lifecycle/model/transitions.ts';
import { type Database, isUniqueViolation, type Transaction } from '../pg/database.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { moveAllocations } from './allocation-transition.ts';
import type { NodeMove } from './node-move.ts';
import { transition } from './node-transition.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore({ max_connections: 60 });
  db = store.db;
  fleet = await testFleet(db);
});

afterAll(() => store.close());

describe('cost and concurrency', () => {
  const countStatements = (tx: Transaction, count: { statements: number }): Transaction => ({
    ...tx,
    query: (text, values) => {
      count.statements++;
      return tx.query(text, values);
    },
  });

  test('needs the same number of statements for a thousand moves as for one', async () => {
    const ids = (
      await db.query<{ node_id: NodeId }>(
        `insert into nodes (node_id, pool, pool_generation, name, status, status_since, node_instance_id, deadline_at, created_at)
         select 'node_many_' || i, 'test', 1, 'many-' || i, 'offline', $1, 'inst_many_' || i, $1, $1
         from generate_series(1, 1001) as i
         returning node_id`,
        [fleet.now()],
      )
    ).map((row) => row.node_id);
    await db.query(
      `insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, correlation_id, created_at)
       select 'alloc_many_' || i, 'test', 'node_many_' || i, 'acme', 'active', $1, 'c', $1
       from generate_series(1, 1001) as i`,
      [fleet.now()],
    );
    const failNodes = async (nodes: NodeId[]) => {
      const count = { statements: 0 };
      const moves = nodes.map(
        (node_id): NodeMove => ({ node_id, to: 'failed', by: 'offline-deadline', reason: 'lost' }),
      );
      const outcomes = await db.transaction((tx) =>
        transition(countStatements(tx, count), moves, fleet.now(), fleet.environment),
      );
      expect(outcomes.every((outcome) => outcome.moved)).toBe(true);
      return count.statements;
    };
    const one = await failNodes(ids.slice(0, 1));
    expect(await failNodes(ids.slice(1))).toBe(one);
    expect(one).toBeLessThan(10);
    const [failedAllocations] = await db.query<{ count: number }>(
      `select count(*)::int as count
       from allocations
       where allocation_id like 'alloc_many_%'
         and status = 'failed'`,
    );
    expect(failedAllocations?.count).toBe(1001);
  });

  test('lets only one of many concurrent callers move a node', async () => {
    const node = await fleet.node('failed');
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        fleet.move({
          node_id: node.node_id,
          from: ['failed'],
          ...(i % 2
            ? ({ to: 'starting', by: 'late-registration' } as const)
            : ({ to: 'cleaning', by: 'rescue-over' } as const)),
          reason: `mover ${i}`,
        }),
      ),
    );
    expect(outcomes.flat().filter((outcome) => outcome.moved).length).toBe(1);
    const facts = await db.query<{ data: { from: string } }>('select data from evidence where node_id = $1', [
      node.node_id,
    ]);
    expect(facts.filter((fact) => fact.data.from === 'failed').length).toBe(1);
  });

  /** Pseudo-random numbers from a seed, so that a failure can be reproduced. */
  const seededRandom = (seed: number) => () => {
    seed = (seed * 1103515245 + 12345) % 2 ** 31;
    return seed / 2 ** 31;
  };

  test('never deadlocks when transitions overlap', async () => {
    const nodes = await Promise.all(Array.from({ length: 10 }, () => fleet.node('ready')));
    const allocations = await Promise.all(nodes.map((node) => fleet.allocation('active', node)));
    const random = seededRandom(7);
    const pick = <T>(list: readonly T[]): T => {
      const item = list[Math.floor(random() * list.length)];
      if (item === undefined) throw new Error('nothing to pick');
      return item;
    };
    let attempts = 0;
    const plans = Array.from({ length: 50 }, (_, i) => ({
      kind: (['batch', 'release', 'operation'] as const)[i % 3],
      crossing: Array.from({ length: 2 + Math.floor(random() * 4) }, () => ({
        node: pick(nodes),
        edge: pick(nodeEdges),
      })),
      allocation: pick(allocations),
      edge: pick(allocationEdges),
      node_edge: pick(nodeEdges),
    }));
    const work = async (tx: Transaction, { kind, crossing, allocation, edge, node_edge }: (typeof plans)[number]) => {
      const workflow_id = `op_ring_${attempts++}`;
      const { allocation_id, node_id } = allocation;
      const reason = 'at random';
      const at = fleet.now();
      const moveNodes = (moves: NodeMove[]) => transition(tx, moves, at, fleet.environment);
      if (kind === 'batch')
        await moveNodes(
          crossing.map(({ node, edge: { to, by } }) => ({ node_id: node.node_id, to, by: pick(by), reason })),
        );
      // The steps of an operation move the node, then its allocation.
      if (kind === 'operation' && node_id)
        await moveNodes([{ node_id, to: node_edge.to, by: pick(node_edge.by), reason }]);
      if (kind !== 'batch')
        await moveAllocations(tx, [{ allocation_id, to: edge.to, by: pick(edge.by), reason }], at, fleet.environment);
      // A release request holds the lock on the allocation while it inserts a row that refers to
      // the node.
      if (kind === 'release')
        await tx.query(
          `insert into operations (workflow_id, kind, revision, status, node_id, allocation_id, correlation_id, created_at)
           values ($1, 'test', 1, 'succeeded', $2, $3, 'c', $4)`,
          [workflow_id, node_id, allocation_id, at],
        );
    };
    const ignoreSecondHolder = (error: unknown) => {
      if (!isUniqueViolation(error, 'allocations_exclusive')) throw error;
    };
    await Promise.all(plans.map((plan) => db.transaction((tx) => work(tx, plan)).catch(ignoreSecondHolder)));
    // PostgreSQL would abort one transaction of a deadlock, and its retry would be another attempt.
    expect(attempts).toBe(plans.length);
  });
});
