/**
 * Follows one subject by the event stream, or by polling each second while there is no stream.
 * Keeps following across a server restart, because operations survive it.
 */
import { type ServerEvent, streamChanges } from '../connection/event-stream.ts';
import { isTransient, type Session } from '../connection/session.ts';
import { readWireEvent } from '../connection/wire-event.ts';
import { Interrupted } from '../terminal/failure.ts';
import { mergeAllocation, mergeNode, mergeOperation, type Subject, type Target, type TargetKind } from './subject.ts';

export interface Observation {
  subject: Subject;
  /** How the subject was read; `lost`: the last try failed, so the subject may be stale. */
  link: 'live' | 'polling' | 'lost';
}

/** After this long without an answer, the wait fails with an unreachable server. */
export const maxOutageMs = 120_000;

const queries: Record<TargetKind, (id: string) => Record<string, string>> = {
  allocation: (id) => ({ topics: 'allocations,operations', allocation_id: id }),
  node: (id) => ({ topics: 'nodes,operations', node_id: id }),
  operation: (id) => ({ topics: 'operations', workflow_id: id }),
};

function mergeEvent(subject: Subject, event: ServerEvent): Subject {
  const wireEvent = readWireEvent(event);
  if (wireEvent?.kind === 'allocation') return mergeAllocation(subject, wireEvent.allocation);
  if (wireEvent?.kind === 'node') return mergeNode(subject, wireEvent.node);
  return wireEvent ? mergeOperation(subject, wireEvent.operation) : subject;
}

/** Fetches the subject and the operation in progress on it. */
export async function fetchSubject(
  session: Session,
  target: Target,
  known: Subject,
  signal: AbortSignal,
): Promise<Subject> {
  const call = { params: { id: target.id }, signal };
  const options = { no_retry: true } as const;
  if (target.kind === 'operation') return mergeOperation(known, await session.call('operation-get', call, options));
  const subject =
    target.kind === 'allocation'
      ? mergeAllocation(known, await session.call('allocation-get', call, options))
      : mergeNode(known, await session.call('node-get', call, options));
  const workflow_id = subject.allocation?.workflow_id ?? subject.node?.workflow_id;
  if (!workflow_id) return subject;
  const operation = await session.call('operation-get', { params: { id: workflow_id }, signal }, options);
  return mergeOperation(subject, operation);
}

export async function* follow(
  session: Session,
  target: Target,
  known: Subject,
  signal: AbortSignal,
): AsyncGenerator<Observation> {
  const { clock } = session;
  const open = (last: string, streamSignal: AbortSignal) =>
    session.openStream(queries[target.kind](target.id), last, streamSignal);
  let subject = known;
  let lastAnswerMs = clock.monotonicMs();
  for await (const change of streamChanges({ clock, signal, open })) {
    if (change.type === 'event') {
      lastAnswerMs = clock.monotonicMs();
      subject = mergeEvent(subject, change.event);
      yield { subject, link: 'live' };
      continue;
    }
    try {
      // Fetches the subject, because the stream misses changes from the time when it was not open.
      subject = await fetchSubject(session, target, subject, signal);
      lastAnswerMs = clock.monotonicMs();
      yield { subject, link: change.type === 'closed' ? 'polling' : 'live' };
    } catch (error) {
      if (error instanceof Interrupted && signal.aborted) return;
      if (!isTransient(error) || clock.monotonicMs() - lastAnswerMs > maxOutageMs) throw error;
      yield { subject, link: 'lost' };
    }
  }
}
