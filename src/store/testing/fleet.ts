/** For tests: creates nodes and allocations and brings them to any status by transitions. */
import { type Clock, moment } from '../../base/clock.ts';
import {
  type AllocationId,
  type NodeId,
  newAllocationId,
  newCorrelationId,
  newNodeId,
  newNodeInstanceId,
} from '../../base/ids.ts';
import { type VirtualClock, virtualClock } from '../../base/virtual-clock.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type { AllocationStatus, NodeStatus } from '../../lifecycle/model/states.ts';
import { allocationEdges, type Cause, type Edge, nodeEdges } from '../../lifecycle/model/transitions.ts';
import { createInstance } from '../agents/instances.ts';
import type { Database, Transaction } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { declarePool } from '../rows/pools.ts';
import { type AllocationMove, createAllocation, moveAllocations } from '../transitions/allocation-transition.ts';
import type { NodeMove } from '../transitions/node-move.ts';
import { createNode, transition } from '../transitions/node-transition.ts';
import { defaultEnvironment, type TransitionEnvironment } from '../transitions/transition-rules.ts';

export const testPool: PoolDocument = { name: 'test', driver: 'external', budgets: { provision_seconds: 600 } };

export interface Fleet {
  db: Database;
  clock: VirtualClock;
  environment: TransitionEnvironment;
  /** Each call returns a later time. */
  now(): Date;
  node(status?: NodeStatus, options?: { enrollment_token?: string }): Promise<NodeRow>;
  allocation(status?: AllocationStatus, node?: NodeRow | null, tenant?: string): Promise<AllocationRow>;
  move(move: NodeMove): ReturnType<typeof transition>;
  moveAllocation(move: AllocationMove): ReturnType<typeof moveAllocations>;
}

/** Returns the moves of the shortest path through a transition table, with one cause each. */
export function findShortestPath<S extends string>(
  edges: readonly Edge<S>[],
  from: S | 'new',
  to: S,
): { to: S; by: Cause }[] {
  const paths = new Map<S | 'new', { to: S; by: Cause }[]>([[from, []]]);
  for (const [here, path] of paths) {
    if (here === to) return path;
    for (const edge of edges) {
      const [by] = edge.by;
      if (edge.from === here && by && !paths.has(edge.to)) paths.set(edge.to, [...path, { to: edge.to, by }]);
    }
  }
  throw new Error(`the table has no path from ${from} to ${to}`);
}

const first = <T>(list: readonly T[]): T => {
  const [item] = list;
  if (item === undefined) throw new Error('the list is empty');
  return item;
};

/** Ids sort by creation time, so each id needs a later time. */
const tickingClock = (fleet: Fleet): Clock => ({ ...fleet.clock, nowMs: () => fleet.now().getTime() });

async function createTestNode(tx: Transaction, fleet: Fleet, enrollment_token?: string): Promise<NodeRow> {
  const clock = tickingClock(fleet);
  const node_id = newNodeId(clock);
  const node_instance_id = newNodeInstanceId(clock);
  const node = await createNode(
    tx,
    {
      node_id,
      pool: 'test',
      pool_generation: 1,
      name: node_id,
      zone: null,
      node_instance_id,
      workflow_id: null,
      correlation_id: newCorrelationId(),
      requested_provision_seconds: null,
      labels: {},
    },
    testPool,
    { by: 'node-create', reason: 'for a test' },
    fleet.now(),
    fleet.environment,
  );
  await createInstance(tx, { node_instance_id, node_id, ...(enrollment_token && { enrollment_token }) }, fleet.now());
  return node;
}

export async function testFleet(db: Database): Promise<Fleet> {
  const clock = virtualClock();
  let ticks = 0;
  const fleet: Fleet = {
    db,
    clock,
    environment: defaultEnvironment,
    now: () => moment(clock.nowMs() + ticks++),
    move: (move) => db.transaction((tx) => transition(tx, [move], fleet.now(), fleet.environment)),
    moveAllocation: (move) => db.transaction((tx) => moveAllocations(tx, [move], fleet.now(), fleet.environment)),
    node: (status = 'provisioning', options = {}) =>
      db.transaction(async (tx) => {
        let node = await createTestNode(tx, fleet, options.enrollment_token);
        for (const step of findShortestPath<NodeStatus>(nodeEdges, 'provisioning', status)) {
          const set = step.by === 'registration' ? { registered_at: fleet.now() } : {};
          const move: NodeMove = { node_id: node.node_id, ...step, reason: 'for a test', set };
          const outcome = first(await transition(tx, [move], fleet.now(), fleet.environment));
          if (!outcome.moved) throw new Error(`could not bring a node to ${step.to}: ${outcome.because}`);
          node = outcome.node;
        }
        return node;
      }),
    allocation: (status = 'requested', node = null, tenant = 'acme') =>
      db.transaction(async (tx) => {
        let allocation = await createAllocation(
          tx,
          {
            allocation_id: newAllocationId(tickingClock(fleet)),
            pool: 'test',
            tenant,
            name: null,
            workflow_id: null,
            correlation_id: newCorrelationId(),
            provision_timeout_seconds: null,
            labels: {},
          },
          testPool,
          { reason: 'for a test', actor: null },
          fleet.now(),
          fleet.environment,
        );
        // An allocation gets its node in `provisioning`, so the path goes through that status.
        const through: AllocationStatus = node ? 'provisioning' : 'requested';
        const path = [
          ...findShortestPath<AllocationStatus>(allocationEdges, 'requested', through),
          ...findShortestPath<AllocationStatus>(allocationEdges, through, status),
        ];
        for (const step of path) {
          const set = step.to === 'provisioning' && node ? { node_id: node.node_id } : {};
          const move: AllocationMove = { allocation_id: allocation.allocation_id, ...step, reason: 'for a test', set };
          const outcome = first(await moveAllocations(tx, [move], fleet.now(), fleet.environment));
          if (!outcome.moved) throw new Error(`could not bring an allocation to ${step.to}: ${outcome.because}`);
          allocation = outcome.allocation;
        }
        return allocation;
      }),
  };
  await db.transaction((tx) => declarePool(tx, 'test', testPool, fleet.now()));
  return fleet;
}

export async function readNodeRow(db: Database, id: NodeId): Promise<NodeRow> {
  return first(await db.query<NodeRow>('select * from nodes where node_id = $1', [id]));
}

export async function readAllocationRow(db: Database, id: AllocationId): Promise<AllocationRow> {
  return first(await db.query<AllocationRow>('select * from allocations where allocation_id = $1', [id]));
}
