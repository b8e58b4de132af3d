/**
 * One round of a bulk recovery: judges the targets that were acted on, then acts on as many more as
 * the pace allows. All state is in the targets' rows, so after a crash any replica can continue.
 */
import { now } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import { ApiProblem, type ErrorCode, errorCatalogue } from '../../contract/errors/errors.ts';
import type { ProgressPart } from '../../contract/progress.ts';
import type { RecoveryFilter } from '../../contract/supervision/recovery.ts';
import type { Json, OperationContext } from '../../engine/engine.ts';
import {
  type BulkActionName,
  bulkAction,
  isAboutAllocations,
  judgeTarget,
  type RecoveryMove,
  type RecoveryPhase,
} from '../../lifecycle/actions/recovery.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { type Fact, recordEvidence } from '../../store/evidence/evidence.ts';
import { lockAsExecutor } from '../../store/operations/executions.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import {
  changeTarget,
  countTargets,
  findCanaries,
  findNextTarget,
  type JudgedTarget,
  listActingTargets,
  rangeAfter,
  readPace,
  type Tally,
  type TargetRange,
  type TargetRow,
} from '../../store/operations/recoveries.ts';
import type { Queryable, Transaction } from '../../store/pg/database.ts';
import { withinTransaction } from '../../store/pg/database.ts';
import { actOnAllocation } from '../actions/allocation-actions.ts';
import { actOnNode } from '../actions/node-actions.ts';
import type { Caller } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';

const totalOf = (tally: Tally) => tally.waiting + tally.acting + tally.recovered + tally.failed + tally.skipped;

export function progressMessage(phase: RecoveryPhase, tally: Tally): string {
  const skipped = tally.skipped > 0 ? `, ${tally.skipped} skipped` : '';
  const so_far = `${tally.recovered} of ${totalOf(tally)} recovered, ${tally.failed} failed${skipped}`;
  return phase === 'canary' ? `${so_far}; the rest waits for the canary` : `${so_far}, the canary recovered`;
}

const shownStates: { state: keyof Tally; word: string; tone: ProgressPart['tone'] }[] = [
  { state: 'recovered', word: 'recovered', tone: 'ok' },
  { state: 'failed', word: 'failed', tone: 'bad' },
  { state: 'acting', word: 'under way', tone: 'busy' },
  { state: 'waiting', word: 'waiting', tone: 'idle' },
  { state: 'skipped', word: 'left untouched', tone: 'idle' },
];

export const progressParts = (tally: Tally): ProgressPart[] =>
  shownStates
    .filter(({ state }) => tally[state] > 0)
    .map(({ state, word, tone }) => ({ name: 'targets', kind: 'recovery', state: word, tone, count: tally[state] }));

/** How many failed targets the message names. The timeline has all of them. */
export const maxNamed = 5;

const nameOf = ({ allocation_id, node_id }: TargetRow) => allocation_id ?? node_id ?? 'a target';

function describe(failed: TargetRow[], count: number): string {
  const reasons = failed.map((target) => `${nameOf(target)}: ${target.reason ?? 'no reason was given'}`);
  const more = count - failed.length;
  return reasons.join('; ') + (more > 0 ? `; and ${more} more` : '');
}

export function stopMessage(phase: RecoveryPhase, tally: Tally, failed: TargetRow[]): string {
  const untouched = tally.waiting + tally.skipped;
  const why = phase === 'canary' ? 'the canary failed' : `stopped after ${tally.failed} failures`;
  return `${why}, ${untouched} left untouched: ${describe(failed, tally.failed)}`;
}

/** `named` lists the failed targets or, if none failed, the skipped ones. */
export const incompleteMessage = (tally: Tally, named: TargetRow[]): string =>
  tally.failed > 0
    ? `${tally.recovered} of ${totalOf(tally)} recovered, ${tally.failed} failed: ${describe(named, tally.failed)}`
    : `none of ${totalOf(tally)} could be acted on: ${describe(named, tally.skipped)}`;

/**
 * Performs the action in the name of the person who requested the recovery, in the caller's
 * transaction. Returns the queued operation, if any.
 */
async function actOnTarget(
  tx: Transaction,
  services: OperationServices,
  action: BulkActionName,
  { allocation_id, node_id }: Pick<TargetRow, 'allocation_id' | 'node_id'>,
  caller: Caller & { reason: string },
): Promise<WorkflowId | null> {
  const inTransaction = { ...services, db: withinTransaction(services.db, tx) };
  const request = { reason: caller.reason };
  const result = isAboutAllocations(action)
    ? await actOnAllocation(inTransaction, allocation_id ?? '', action, request, caller)
    : await actOnNode(inTransaction, node_id ?? '', action, request, caller);
  return result.workflow_id ?? null;
}

/** The request, stored as the operation's parameters. */
export interface RecoveryOrder {
  action: BulkActionName;
  filter: RecoveryFilter;
  reason: string;
  canary: number;
  per_minute: number;
  stop_after_failures: number;
}

async function readPhaseRange(
  db: Queryable,
  workflow_id: WorkflowId,
  phase: RecoveryPhase,
  order: RecoveryOrder,
): Promise<TargetRange> {
  const canaries = await findCanaries(db, workflow_id, order.canary);
  return phase === 'canary' ? canaries : rangeAfter(canaries);
}

const summaries = { failed: 'could not be recovered', skipped: 'was skipped' } as const;

const outcomeFact = (
  operation: OperationRow,
  target: JudgedTarget,
  state: keyof typeof summaries,
  reason: string,
  at: Date,
): Fact => ({
  at,
  layer: 'workflow',
  kind: `recovery.${state}`,
  summary: `${summaries[state]}: ${reason}`,
  data: { ordinal: target.ordinal, act_workflow_id: target.act_workflow_id },
  correlation_id: operation.correlation_id,
  allocation_id: target.allocation_id,
  node_id: target.node_id,
  workflow_id: operation.workflow_id,
});

async function settleFinished(
  context: OperationContext,
  services: OperationServices,
  order: RecoveryOrder,
): Promise<void> {
  const at = now(services.clock);
  await services.db.transaction(async (tx) => {
    const operation = await lockAsExecutor(tx, context.workflow_id, services.executor);
    for (const target of await listActingTargets(tx, context.workflow_id, order.action)) {
      const state = judgeTarget(order.action, target);
      if (!state) continue;
      const reason = state === 'failed' ? (target.why ?? `it is ${target.status}`) : null;
      await changeTarget(tx, context.workflow_id, target.ordinal, {
        state,
        reason,
        owner_layer: reason === null ? null : target.blamed,
        ended_at: at,
      });
      if (reason !== null) await recordEvidence(tx, [outcomeFact(operation, target, 'failed', reason, at)]);
    }
  });
}

type Turn = 'acted' | 'refused' | 'skipped' | 'none';

/**
 * An error caused by the target's own state is no reason to stop the recovery, so the target is
 * skipped. Any other error is a failure.
 */
const isSkipped = (code: ErrorCode) => errorCatalogue[code].owner_layer === 'request';

/** Acts on a target and marks it in one transaction, so that a crash never repeats an action. */
async function actOnNext(
  context: OperationContext,
  services: OperationServices,
  order: RecoveryOrder,
  phase: RecoveryPhase,
): Promise<Turn> {
  const { db, clock, executor } = services;
  const { workflow_id } = context;
  const at = now(clock);
  let acting: JudgedTarget | undefined;
  try {
    return await db.transaction(async (tx): Promise<Turn> => {
      const operation = await lockAsExecutor(tx, workflow_id, executor);
      const range = await readPhaseRange(tx, workflow_id, phase, order);
      const target = await findNextTarget(tx, workflow_id, order.action, range);
      if (!target) return 'none';
      if (judgeTarget(order.action, target) === 'recovered') {
        const reason = 'was recovered before its turn';
        await changeTarget(tx, workflow_id, target.ordinal, { state: 'recovered', reason, ended_at: at });
        return 'skipped';
      }
      // A rule or a person has already acted on the target. Wait for that operation as for our own.
      if (bulkAction(order.action).under_way.includes(target.status)) {
        const existing = {
          act_workflow_id: target.last_workflow_id,
          reason: 'was under way before its turn',
          acted_at: at,
        };
        await changeTarget(tx, workflow_id, target.ordinal, { state: 'acting', ...existing });
        return 'acted';
      }
      acting = target;
      const caller = {
        actor: operation.actor,
        visibility: wholeFleet,
        correlation_id: operation.correlation_id,
        reason: `${order.reason} (recovery ${workflow_id})`,
      };
      const act_workflow_id = await actOnTarget(tx, services, order.action, target, caller);
      await changeTarget(tx, workflow_id, target.ordinal, { state: 'acting', act_workflow_id, acted_at: at });
      return 'acted';
    });
  } catch (error) {
    const target = acting;
    if (!(error instanceof ApiProblem) || !target) throw error;
    await db.transaction(async (tx) => {
      const operation = await lockAsExecutor(tx, workflow_id, executor);
      const { owner_layer } = errorCatalogue[error.code];
      const state = isSkipped(error.code) ? 'skipped' : 'failed';
      const ended = { reason: error.message, owner_layer, ended_at: at, ...(state === 'failed' && { acted_at: at }) };
      await changeTarget(tx, workflow_id, target.ordinal, { state, ...ended });
      await recordEvidence(tx, [outcomeFact(operation, target, state, error.message, at)]);
    });
    return isSkipped(error.code) ? 'skipped' : 'refused';
  }
}

/** The limit of targets per round, including skipped ones, so that a round stays short. */
const maxTurns = 200;

async function actOnNextTargets(
  context: OperationContext,
  services: OperationServices,
  order: RecoveryOrder,
  phase: RecoveryPhase,
  limit: number,
): Promise<void> {
  let acted = 0;
  for (let turns = 0; acted < limit && turns < maxTurns; turns++) {
    const turn = await actOnNext(context, services, order, phase);
    // A refusal counts as a failure, so the next round checks whether to stop.
    if (turn === 'none' || turn === 'refused') return;
    if (turn === 'acted') acted++;
  }
}

export type Round = Pick<RecoveryMove, 'stop' | 'over' | 'wait_seconds'> & { tally: Tally };

const hasChanged = (before: Tally | undefined, tally: Tally) =>
  !before || (Object.keys(tally) as (keyof Tally)[]).some((state) => tally[state] !== before[state]);

export async function recoveryRound(
  context: OperationContext,
  services: OperationServices,
  order: RecoveryOrder,
  phase: RecoveryPhase,
  before: Tally | undefined,
): Promise<Round> {
  const { db, environment } = services;
  await settleFinished(context, services, order);
  const range = await readPhaseRange(db, context.workflow_id, phase, order);
  const { waiting, acting, failed } = await countTargets(db, context.workflow_id, range);
  const pace = await readPace(db, context.workflow_id, now(services.clock));
  const move = environment.decide.nextRecoveryMove({ phase, ...order, waiting, acting, failed, ...pace });
  if (move.act > 0) await actOnNextTargets(context, services, order, phase, move.act);
  const tally = await countTargets(db, context.workflow_id);
  if (hasChanged(before, tally))
    await context.emit({ message: progressMessage(phase, tally), parts: progressParts(tally) } as unknown as Json);
  return { stop: move.stop, over: move.over, wait_seconds: move.wait_seconds, tally };
}
