/** `--wait`: shows the progress of one subject until it settles, the timeout passes, or Ctrl-C. */
import { RequestRefused } from '../../contract/client.ts';
import type { Residue } from '../../contract/supervision/residue.ts';
import { collect } from '../connection/pages.ts';
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
import { type Goal, type Subject, settlementOf, type Target } from './subject.ts';

export interface WaitRequest {
  target: Target;
  goal: Goal;
  known: Subject;
  timeout_seconds: number | null;
}

export interface Waited {
  exit: ExitName;
  subject: Subject;
}

/**
 * Fetches a failed allocation once more before reporting the failure. The server queues the next
 * attempt before it ends the last one, so an unchanged operation id means that no attempt follows.
 */
async function confirmed(session: Session, { target, goal }: WaitRequest, seen: Subject, signal: AbortSignal) {
  let subject = seen;
  let exit = settlementOf(subject, goal);
  while (exit === 'failed' && subject.allocation?.status === 'failed') {
    const failed_workflow_id = subject.allocation.workflow_id;
    try {
      subject = await fetchSubject(session, target, subject, signal);
    } catch (error) {
      if (error instanceof Interrupted) return { subject, exit: null };
      if (!isTransient(error)) throw error;
      break;
    }
    exit = settlementOf(subject, goal);
    if (subject.allocation?.workflow_id === failed_workflow_id) break;
  }
  return { subject, exit };
}

async function settle(
  session: Session,
  request: WaitRequest,
  display: Display,
  timeout: AbortSignal,
): Promise<Waited | Subject> {
  let subject = request.known;
  const signal = AbortSignal.any([session.signal, timeout]);
  for await (const sighting of follow(session, request.target, subject, signal)) {
    display.show(sighting);
    const { exit, ...latest } = await confirmed(session, request, sighting.subject, signal);
    subject = latest.subject;
    if (exit) return { exit, subject };
  }
  return subject;
}

async function unlessRefused<T>(called: Promise<T>): Promise<T | undefined> {
  try {
    return await called;
  } catch (error) {
    if (error instanceof RequestRefused) return undefined;
    throw error;
  }
}

/** The allocation whose release may have been forced. An ordinary release ends only with proof. */
function mayBeForced({ allocation, operation }: Subject): string | null {
  if (!allocation) return operation?.kind === 'allocation-force-release' ? operation.allocation_id : null;
  const isOrdinary = allocation.progress?.kind === 'allocation-release';
  return allocation.status === 'released' && !isOrdinary ? allocation.allocation_id : null;
}

/** A forced release may still end with proof, so only the recorded cause decides. */
async function isForced(session: Session, allocation_id: string): Promise<boolean> {
  const query = { allocation_id, kind: 'allocation.released', limit: 1 };
  const page = await unlessRefused(session.call('timeline-get', { query }));
  return page?.items[0]?.data.by === 'force-release';
}

const maxResidue = 2000;

/** Undefined if the release is proven. Zero if the token may not read the residue ledger. */
async function countResidue(session: Session, subject: Subject): Promise<number | undefined> {
  const id = mayBeForced(subject);
  if (id === null || !(await isForced(session, id))) return undefined;
  const ledger = await unlessRefused(
    collect<Residue>((paging) => session.call('residue-list', { query: { ...paging, status: 'open' } }), maxResidue),
  );
  return ledger?.items.filter(({ allocation_id }) => allocation_id === id).length ?? 0;
}

/** The actions that the server offers to this token after a failed release. */
async function openActions(session: Session, { allocation }: Subject, context: RenderContext): Promise<string[]> {
  if (!allocation || !isReleaseFailed(allocation)) return [];
  const id = allocation.allocation_id;
  const offered = await unlessRefused(session.call('allocation-actions', { params: { id } }));
  return offered ? availableActionLines(id, offered.items, context) : [];
}

export async function waitUntilSettled(session: Session, request: WaitRequest): Promise<Waited> {
  const { clock, terminal, json } = session;
  const timeout = new AbortController();
  const { timeout_seconds, target } = request;
  const cancel = timeout_seconds === null ? () => {} : clock.after(timeout_seconds * 1000, () => timeout.abort());
  const display = displayFor(session, request.known);
  let outcome: Waited | Subject;
  try {
    outcome = await settle(session, request, display, timeout.signal);
  } finally {
    cancel();
    display.close();
  }
  const surface = json ? terminal.err : terminal.out;
  const context = { ...fitOf(surface), nowMs: clock.nowMs(), commandLine: session.commandLine };
  if ('exit' in outcome) {
    if (!json) {
      const residue_count = await countResidue(session, outcome.subject);
      const available_actions = await openActions(session, outcome.subject, context);
      const closing = { ...context, available_actions, ...(residue_count !== undefined && { residue_count }) };
      printLines(surface, outcomeLines(outcome.subject, outcome.exit, closing));
    }
    return outcome;
  }
  const interrupted = session.signal.aborted;
  const because = interrupted ? 'Stopped waiting' : `Not settled within ${formatDuration(timeout_seconds ?? 0)}`;
  if (!json || surface.interactive) printLines(surface, unfinishedLines(outcome, target, because, context));
  return { exit: interrupted ? 'interrupted' : 'timed_out', subject: outcome };
}
