/** For tests: applies random histories to a few nodes and allocations. Some moves are refused. */
import fc from 'fast-check';
import { type CorrelationId, newCorrelationId, newTokenId, newWorkflowId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { reportedStatuses } from '../../lifecycle/model/reports.ts';
import { allocationEdges, nodeEdges } from '../../lifecycle/model/transitions.ts';
import { instanceByCredential } from '../agents/instances.ts';
import { readNameStanding } from '../agents/joins/name-standing.ts';
import { register } from '../agents/register.ts';
import { recordReport } from '../agents/reports.ts';
import { type Installation, openInstallation } from '../keys/installation.ts';
import { type Database, isUniqueViolation } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import { lockNode, type NodeRow } from '../rows/nodes.ts';
import { createJoinToken } from '../rows/tokens.ts';
import { bindNodeToOperation } from '../transitions/amend-node.ts';
import { type Fleet, readNodeRow, testFleet } from './fleet.ts';

export interface Histories {
  fleet: Fleet;
  installation: Installation;
  joinToken: string;
}

export async function openHistories(db: Database): Promise<Histories> {
  const fleet = await testFleet(db);
  const joinToken = 'swj_test';
  const installation = await openInstallation(db, fleet.now());
  await createJoinToken(
    db,
    { token_id: newTokenId(fleet.clock), pool: 'test', expires_at: null, max_uses: null, created_at: fleet.now() },
    joinToken,
  );
  return { fleet, installation, joinToken };
}

export async function createSubjects({ fleet }: Histories): Promise<HistorySubjects> {
  const nodes = [await fleet.node(), await fleet.node('starting'), await fleet.node('ready')];
  const allocations = [await fleet.allocation(), await fleet.allocation()];
  return { nodes, allocations, credentials: new Map() };
}

const createContext = ({ fleet, installation }: Histories) => ({
  clock: fleet.clock,
  now: fleet.now(),
  environment: fleet.environment,
  installation,
  correlation_id: newCorrelationId() as CorrelationId,
});

export interface HistorySubjects {
  nodes: NodeRow[];
  allocations: AllocationRow[];
  credentials: Map<string, string>;
}

/** Ignores refusals, because random acts may be refused. */
const allowRefusal = async (work: Promise<unknown>) => {
  await work.catch((error: unknown) => {
    if (!(error instanceof ApiProblem) && !isUniqueViolation(error)) throw error;
  });
};

const pick = <T>(list: readonly T[], at: number): T => {
  const item = list[at % list.length];
  if (item === undefined) throw new Error('the list is empty');
  return item;
};

/** `subject` and `choice` pick from lists whose lengths they may exceed. */
export interface Act {
  kind: 'move' | 'assign' | 'report' | 'join' | 'register' | 'bind';
  subject: number;
  choice: number;
}

export async function act(
  histories: Histories,
  subjects: HistorySubjects,
  { kind, subject, choice }: Act,
): Promise<void> {
  const { fleet, joinToken } = histories;
  const { db } = fleet;
  const node = pick(subjects.nodes, subject);
  const ids = { node_id: node.node_id };
  if (kind === 'move') {
    // Most moves use an edge from the present status; otherwise nearly all would be refused.
    const { status } = await readNodeRow(db, node.node_id);
    const edge = pick(nodeEdges.filter((each) => each.from === status).concat(nodeEdges.slice(1, 2)), choice);
    const set =
      choice % 3 === 0 ? { endpoint: `http://node/${choice}`, observed_state: 'up', observed_at: fleet.now() } : {};
    await allowRefusal(fleet.move({ ...ids, to: edge.to, by: pick(edge.by, choice), reason: `act ${choice}`, set }));
  } else if (kind === 'assign') {
    const allocation = pick(subjects.allocations, choice);
    const [now] = await db.query<AllocationRow>('select * from allocations where allocation_id = $1', [
      allocation.allocation_id,
    ]);
    const possibleEdges = allocationEdges.filter((each) => each.from === now?.status);
    if (possibleEdges.length === 0) return;
    const edge = pick(possibleEdges, choice);
    const set = edge.to === 'provisioning' ? { node_id: node.node_id } : { release_tries: choice };
    await allowRefusal(
      fleet.moveAllocation({
        allocation_id: allocation.allocation_id,
        to: edge.to,
        by: pick(edge.by, subject),
        reason: 'act',
        set,
      }),
    );
  } else if (kind === 'report') {
    const current = await readNodeRow(db, node.node_id);
    if (!current.node_instance_id) return;
    const report = { status: pick(reportedStatuses, choice) };
    const reporter = { ...ids, node_instance_id: current.node_instance_id, stale_seconds: 0 };
    // The product assigns only free nodes. A random history may assign a failed one, and the rescue
    // of its former allocation is then refused by `allocations_exclusive`.
    await allowRefusal(recordReport(db, reporter, report, fleet.now(), fleet.environment));
  } else if (kind === 'join') {
    // Only a client of a foreign protocol may take a known name as a new instance.
    const judged = await readNameStanding(db, { pool: node.pool, name: node.name });
    const arrival = {
      ...({
        protocol: 'agentfield',
        announced_interval_seconds: null,
        client_instance: null,
        join_token_id: null,
      } as const),
      ...(judged && { judged }),
    };
    const joining = register(db, { join_token: joinToken, name: node.name, version: '1' }, undefined, {
      ...createContext(histories),
      arrival,
    });
    await allowRefusal(joining.then((reply) => subjects.credentials.set(node.node_id, reply.credential ?? '')));
  } else if (kind === 'register') {
    const known = await instanceByCredential(db, subjects.credentials.get(node.node_id) ?? '', fleet.now());
    if (known)
      await allowRefusal(register(db, { version: '2', base_url: 'http://again' }, known, createContext(histories)));
  } else {
    await db.transaction(async (tx) => {
      const locked = await lockNode(tx, node.node_id);
      const operation = { workflow_id: newWorkflowId(fleet.clock), correlation_id: newCorrelationId(), kind: 'test' };
      if (locked) await bindNodeToOperation(tx, locked, operation, fleet.now());
    });
  }
}

export const acts: fc.Arbitrary<Act[]> = fc.array(
  fc.record({
    kind: fc.constantFrom(
      'move' as const,
      'move' as const,
      'move' as const,
      'assign' as const,
      'report' as const,
      'join' as const,
      'register' as const,
      'bind' as const,
    ),
    subject: fc.nat(2),
    choice: fc.nat(50),
  }),
  { minLength: 10, maxLength: 45 },
);
