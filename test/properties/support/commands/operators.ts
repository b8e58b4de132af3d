/** Runs actions of operators, and transitions that simulate operations. */
import { now } from '../../../../src/base/clock.ts';
import { newCorrelationId, newNodeInstanceId } from '../../../../src/base/ids.ts';
import type { NodeStatus } from '../../../../src/lifecycle/model/states.ts';
import { type Cause, causes } from '../../../../src/lifecycle/model/transitions.ts';
import { wholeFleet } from '../../../../src/lifecycle/visibility.ts';
import { actOnNode } from '../../../../src/operations/actions/node-actions.ts';
import { retireIn } from '../../../../src/operations/release/node-retire.ts';
import { createInstance, fenceInstance } from '../../../../src/store/agents/instances.ts';
import type { Transaction } from '../../../../src/store/pg/database.ts';
import { lockNode } from '../../../../src/store/rows/nodes.ts';
import type { NodeMove } from '../../../../src/store/transitions/node-move.ts';
import { transition } from '../../../../src/store/transitions/node-transition.ts';
import { modelEdges } from '../model.ts';
import { pickAt } from '../random.ts';
import type { Turn } from '../views.ts';
import { allowRefusal, type CommandContext, mustHave, splitIntoChunks } from './command-context.ts';

export const actor = { kind: 'token', id: 'tok_test', name: 'tester' };
export const caller = () => ({
  actor,
  visibility: wholeFleet,
  correlation_id: newCorrelationId(),
  reason: 'for a test',
});

export const servicesOf = ({ fixture }: CommandContext) => {
  const [replica] = fixture.replicas;
  if (!replica) throw new Error('there is no replica');
  return replica.services;
};

const act = (context: CommandContext, turn: Turn, action: 'extend-deadline' | 'apply-held-verdict', seconds?: number) =>
  allowRefusal(async () => {
    const request = { reason: 'for a test', seconds };
    const { says } = await actOnNode(servicesOf(context), mustHave(turn.node).node_id, action, request, caller());
    return `${action}: ${says}`;
  });

export const operators = {
  extend: (context: CommandContext, turn: Turn) =>
    act(context, turn, 'extend-deadline', pickAt([10, 20, 60], turn.draws.variant)),
  'apply-held': (context: CommandContext, turn: Turn) => act(context, turn, 'apply-held-verdict'),
  retire: (context: CommandContext, { node }: Turn) =>
    context.fixture.db.transaction(async (tx) => {
      const lockedNode = mustHave(await lockNode(tx, mustHave(node).node_id));
      const cause = { by: 'retire' as const, reason: 'no longer wanted', actor };
      const outcome = await retireIn(tx, servicesOf(context), lockedNode, cause, now(context.fixture.clock));
      return `retire: ${outcome ? 'teardown started' : 'refused'}`;
    }),
};

type Move = (turn: Turn) => Pick<NodeMove, 'to' | 'by' | 'set' | 'from'>;

const causeNames = Object.keys(causes) as Cause[];
const nodeStatuses: NodeStatus[] = [
  'provisioning',
  'starting',
  'ready',
  'degraded',
  'offline',
  'failed',
  'draining',
  'cleaning',
  'quarantined',
  'retired',
];

const isModelled = (from: string, to: string, by: string) =>
  modelEdges.some((edge) => edge.entity === 'node' && edge.from === from && edge.to === to && edge.by === by);

/** Returns a change from the current status that is not in the model. */
function unknownMove({ node, draws }: Turn): ReturnType<Move> {
  const { status } = mustHave(node);
  const unknownMoves = nodeStatuses.flatMap((to) =>
    causeNames.flatMap((by) => (to === status || isModelled(status, to, by) ? [] : [{ to, by, from: [status] }])),
  );
  return pickAt(unknownMoves, draws.variant);
}

/** Commands that are a single transition by an operation or an operator. */
export const transitionMoves = {
  drain: ({ draws }) => ({ to: 'draining', by: 'drain', set: { drain_then: draws.variant < 0.5 ? 'hold' : 'retire' } }),
  undrain: () => ({ to: 'ready', by: 'undrain' }),
  drained: ({ draws }) => ({ to: draws.variant < 0.5 ? 'quarantined' : 'cleaning', by: 'drained' }),
  quarantine: () => ({ to: 'quarantined', by: 'quarantine' }),
  reactivate: () => ({ to: 'starting', by: 'reactivate' }),
  reimage: () => ({ to: 'cleaning', by: 'reimage' }),
  'provision-error': () => ({ to: 'failed', by: 'provision-error' }),
  'clean-error': () => ({ to: 'quarantined', by: 'clean-error' }),
  ensured: () => ({ to: 'starting', by: 'ensured' }),
  'upstream-ready': () => ({ to: 'ready', by: 'upstream-ready' }),
  'unknown-move': unknownMove,
} as const satisfies Record<string, Move>;

export type TransitionMoveName = keyof typeof transitionMoves;

const batchSize = 200;

export async function runTransitionMoves(
  context: CommandContext,
  chosen: { turn: Turn; name: TransitionMoveName }[],
): Promise<void> {
  const { fixture } = context;
  for (const chunk of splitIntoChunks(chosen, batchSize)) {
    const moves = chunk.map(({ turn, name }): NodeMove => {
      const move: ReturnType<Move> = transitionMoves[name](turn);
      return {
        ...move,
        node_id: mustHave(turn.node).node_id,
        reason: name,
        ...(causes[move.by].trigger === 'operator' && { actor }),
      };
    });
    const outcomes = await fixture.db.transaction((tx) =>
      transition(tx, moves, now(fixture.clock), fixture.environment),
    );
    for (const [index, { turn, name }] of chunk.entries()) {
      const outcome = outcomes[index];
      turn.log(
        `${name} (${moves[index]?.to} by ${moves[index]?.by}): ${outcome?.moved ? outcome.node.status : outcome?.because}`,
      );
    }
  }
}

/** Replaces the instance of each node and fences the old one. Returns the turns that succeeded. */
export async function replaceInstances(
  { fixture }: CommandContext,
  tx: Transaction,
  turns: Turn[],
  by: 're-enroll' | 'proof',
): Promise<Turn[]> {
  const moment = now(fixture.clock);
  const replacements = turns.map(({ node }) => ({
    node: mustHave(node),
    node_instance_id: newNodeInstanceId(fixture.clock),
  }));
  const outcomes = await transition(
    tx,
    replacements.map(({ node, node_instance_id }) => ({
      node_id: node.node_id,
      node_instance_id: node.node_instance_id,
      to: 'provisioning' as const,
      by,
      reason: 'replaced by a new instance',
      set: { node_instance_id, registered_at: null, reported_status: null, endpoint: null },
    })),
    moment,
    fixture.environment,
  );
  const replacedTurns: Turn[] = [];
  for (const [index, { node, node_instance_id }] of replacements.entries()) {
    const turn = mustHave(turns[index]);
    const isMoved = outcomes[index]?.moved ?? false;
    turn.log(`${by} as a new instance: ${isMoved ? node_instance_id : 'refused'}`);
    if (!isMoved) continue;
    replacedTurns.push(turn);
    await fenceInstance(tx, node.node_instance_id, { reason: 'replaced by a new instance', revoke: true }, moment);
    const enrollment_token = fixture.installation.signEnrollmentToken({
      pool: node.pool,
      node_id: node.node_id,
      node_instance_id,
    });
    await createInstance(tx, { node_instance_id, node_id: node.node_id, enrollment_token }, moment);
  }
  return replacedTurns;
}

export async function reEnroll(context: CommandContext, turns: Turn[]): Promise<void> {
  for (const chunk of splitIntoChunks(turns, batchSize))
    await context.fixture.db.transaction((tx) => replaceInstances(context, tx, chunk, 're-enroll'));
}
