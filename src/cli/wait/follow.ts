/**
 * Follows one thing until the reader has seen enough: by the event stream while there is one, by asking each second while
 * there is not. A server that is restarted in between is waited for, because the work survives it.
 */
import { type ServerEvent, streamChanges } from '../connection/event-stream.ts';
import { isPassing, type Session } from '../connection/session.ts';
import { readWireEvent } from '../connection/wire-event.ts';
import { Interrupted } from '../terminal/failure.ts';
import { learnAllocation, learnNode, learnOperation, type Subject, type Target, type TargetKind } from './subject.ts';

export interface Sighting {
  subject: Subject;
  /** How the news came; `lost` means that it is old. */
  link: 'live' | 'polling' | 'lost';
}

/** So long is a server given to come back before the waiting ends as unreachable. */
export const patienceMs = 120_000;

const queries: Record<TargetKind, (id: string) => Record<string, string>> = {
  allocation: (id) => ({ topics: 'allocations,operations', allocation_id: id }),
  node: (id) => ({ topics: 'nodes,operations', node_id: id }),
  operation: (id) => ({ topics: 'operations', workflow_id: id }),
};

function learnEvent(subject: Subject, event: ServerEvent): Subject {
  const news = readWireEvent(event);
  if (news?.kind === 'allocation') return learnAllocation(subject, news.allocation);
  if (news?.kind === 'node') return learnNode(subject, news.node);
  return news ? learnOperation(subject, news.operation) : subject;
}

/** Asks for the thing itself, and for the operation that is at work on it. */
export async function look(session: Session, target: Target, known: Subject, signal: AbortSignal): Promise<Subject> {
  const call = { params: { id: target.id }, signal };
  const impatient = { impatient: true } as const;
  if (target.kind === 'operation') return learnOperation(known, await session.call('operation-get', call, impatient));
  const subject =
    target.kind === 'allocation'
      ? learnAllocation(known, await session.call('allocation-get', call, impatient))
      : learnNode(known, await session.call('node-get', call, impatient));
  const workflow_id = subject.allocation?.workflow_id ?? subject.node?.workflow_id;
  if (!workflow_id) return subject;
  const operation = await session.call('operation-get', { params: { id: workflow_id }, signal }, impatient);
  return learnOperation(subject, operation);
}

export async function* follow(
  session: Session,
  target: Target,
  known: Subject,
  signal: AbortSignal,
): AsyncGenerator<Sighting> {
  const { clock } = session;
  const open = (last: string, within: AbortSignal) => session.openStream(queries[target.kind](target.id), last, within);
  let subject = known;
  let lastAnswerMs = clock.monotonicMs();
  for await (const change of streamChanges({ clock, signal, open })) {
    if (change.type === 'event') {
      lastAnswerMs = clock.monotonicMs();
      subject = learnEvent(subject, change.event);
      yield { subject, link: 'live' };
      continue;
    }
    try {
      // What happened before the stream stood, or while it was down, is seen here.
      subject = await look(session, target, subject, signal);
      lastAnswerMs = clock.monotonicMs();
      yield { subject, link: change.type === 'closed' ? 'polling' : 'live' };
    } catch (error) {
      if (error instanceof Interrupted && signal.aborted) return;
      if (!isPassing(error) || clock.monotonicMs() - lastAnswerMs > patienceMs) throw error;
      yield { subject, link: 'lost' };
    }
  }
}
