/**
 * Shows the progress of one subject until it settles, a timeout passes or Ctrl-C is pressed, for
 * `--wait` and `watch`.
 */
import type { Residue } from '../../contract/supervision/residue.ts';
import { collect } from '../connection/pages.ts';
import { ignoreInvisible } from '../connection/resolve-id.ts';
import { isTransient, type Session } from '../connection/session.ts';
import { outcomeLines, unfinishedLines } from '../render/allocations/outcome.ts';
import { isReleaseFailed } from '../render/allocations/release-failure.ts';
import { availableActionLines } from '../render/machines/actions.ts';
import { formatDuration } from '../render/text/duration.ts';
import type { RenderContext } from '../render/text/hints.ts';
import type { ExitName } from '../terminal/exit-codes.ts';
import { Interrupted } from '../terminal/failure.ts';
import { fitOf, printLines } from '../terminal/terminal.ts';
import { type Display, displayFor } from './display.ts';
import { fetchSubject, follow } from './follow.ts';
import { exitOfWait, type Goal, type Subject, type Target } from './subject.ts';

export interface WaitRequest {
  target: Target;
  goal: Goal;
  known: Subject;
  timeout_seconds: number | null;
}

export interface WaitResult {
  exit: ExitName;
  subject: Subject;
}

/**
 * Fetches a failed allocation again before reporting the failure. The server queues the next
 * attempt before it ends the failed one, so an unchanged operation id means that none follows.
 */
async function confirmOutcome(session: Session, { target, goal }: WaitRequest, observed: Subject, signal: AbortSignal) {
  let subject = observed;
  let exit = exitOfWait(subject, goal);
  while (exit === 'failed' && subject.allocation?.status === 'failed') {
    const failed_workflow_id = subject.allocation.workflow_id;
    try {
      subject = await fetchSubject(session, target, subject, signal);
    } catch (error) {
      if (error instanceof Interrupted) return { subject, exit: null };
      if (!isTransient(error)) throw error;
      break;
    }
    exit = exitOfWait(subject, goal);
    if (subject.allocation?.workflow_id === failed_workflow_id) break;
  }
  return { subject, exit };
}

async function followUntilSettled(
  session: Session,
  request: WaitRequest,
  display: Display,
  timeout: AbortSignal,
): Promise<WaitResult | Subject> {
  let subject = request.known;
  const signal = AbortSignal.any([session.signal, timeout]);
  for await (const observation of follow(session, request.target, subject, signal)) {
    display.show(observation);
    const { exit, ...latest } = await confirmOutcome(session, request, observation.subject, signal);
    subject = latest.subject;
    if (exit) return { exit, subject };
  }
  return subject;
}

/**
 * Returns the id of the allocation if its release may have been forced. An ordinary release ends
 * only with proof.
 */
function findPossiblyForced({ allocation, operation }: Subject): string | null {
  if (!allocation) return operation?.kind === 'allocation-force-release' ? operation.allocation_id : null;
  const isOrdinary = allocation.progress?.kind === 'allocation-release';
  return allocation.status === 'released' && !isOrdinary ? allocation.allocation_id : null;
}

/** Checks the recorded cause, because a forced release may still end with proof. */
async function isForced(session: Session, allocation_id: string): Promise<boolean> {
  const query = { allocation_id, kind: 'allocation.released', limit: 1 };
  const page = await ignoreInvisible(session.call('timeline-get', { query }));
  return page?.items[0]?.data.by === 'force-release';
}

const maxResidue = 2000;

/**
 * Returns undefined for a proven release, and zero if the token may not read the residue ledger.
 */
async function countResidue(session: Session, subject: Subject): Promise<number | undefined> {
  const id = findPossiblyForced(subject);
  if (id === null || !(await isForced(session, id))) return undefined;
  const residue = await ignoreInvisible(
    collect<Residue>((paging) => session.call('residue-list', { query: { ...paging, status: 'open' } }), maxResidue),
  );
  return residue?.items.filter(({ allocation_id }) => allocation_id === id).length ?? 0;
}

/** Renders the actions that this token may take after a failed release. */
async function fetchActionLines(session: Session, { allocation }: Subject, context: RenderContext): Promise<string[]> {
  if (!allocation || !isReleaseFailed(allocation)) return [];
  const id = allocation.allocation_id;
  const actions = await ignoreInvisible(session.call('allocation-actions', { params: { id } }));
  return actions ? availableActionLines(id, actions.items, context) : [];
}

export async function waitUntilSettled(session: Session, request: WaitRequest): Promise<WaitResult> {
  const { clock, terminal, json } = session;
  const timeout = new AbortController();
  const { timeout_seconds, target } = request;
  const cancel = timeout_seconds === null ? () => {} : clock.after(timeout_seconds * 1000, () => timeout.abort());
  const display = displayFor(session, request.known);
  let outcome: WaitResult | Subject;
  try {
    outcome = await followUntilSettled(session, request, display, timeout.signal);
  } finally {
    cancel();
    display.close();
  }
  const output = json ? terminal.err : terminal.out;
  const context = { ...fitOf(output), nowMs: clock.nowMs(), commandLine: session.commandLine };
  if ('exit' in outcome) {
    if (!json) {
      const residue_count = await countResidue(session, outcome.subject);
      const available_actions = await fetchActionLines(session, outcome.subject, context);
      const closing = { ...context, available_actions, ...(residue_count !== undefined && { residue_count }) };
      printLines(output, outcomeLines(outcome.subject, outcome.exit, closing));
    }
    return outcome;
  }
  const isInterrupted = session.signal.aborted;
  const reason = isInterrupted ? 'Stopped waiting' : `Not settled within ${formatDuration(timeout_seconds ?? 0)}`;
  if (!json || output.interactive) printLines(output, unfinishedLines(outcome, target, reason, context));
  return { exit: isInterrupted ? 'interrupted' : 'timed_out', subject: outcome };
}
