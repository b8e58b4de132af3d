/** Resolves an id or a name, copied from any table, log, error or page, to the thing it names. */
import type { Allocation } from '../../contract/allocation.ts';
import { RequestRefused } from '../../contract/client.ts';
import type { Found } from '../../contract/fleet/find.ts';
import type { Node } from '../../contract/node.ts';
import type { Operation } from '../../contract/operation.ts';
import { printable } from '../render/text/text.ts';
import { CliFailure } from '../terminal/failure.ts';
import { type Target, targetKindOf } from '../wait/subject.ts';
import type { Session } from './session.ts';

export interface ResolvedThing extends Target {
  /** Set if the id names one instance of the machine. */
  node_instance_id: string | null;
}

export const unknownId = (session: Session, word: string): CliFailure =>
  new CliFailure('failed', `Nothing is known about ${printable(word)}`, {
    why: 'No node, instance, allocation, operation or request has this id or name, or your token may not see it.',
    remedy: `Check the spelling, or list what exists: ${session.commandLine('nodes', '--all')}`,
  });

const maxListed = 5;

function ambiguousName(session: Session, word: string, { items, as_request }: Found): CliFailure {
  const candidates = items.slice(0, maxListed).map(({ kind, id, status }) => `${id} (${kind}, ${status})`);
  const more = items.length > maxListed ? ` and ${items.length - maxListed} more` : '';
  const phrase = as_request ? 'was one request about several things' : 'names several things';
  const history = session.commandLine('timeline', as_request ? word : (items[0]?.id ?? word));
  return new CliFailure('usage', `${printable(word)} ${phrase}`, {
    why: `${candidates.join(', ')}${more}.`,
    remedy: `Name one of them by its id. See what happened: ${history}`,
  });
}

export async function resolveThing(session: Session, word: string): Promise<ResolvedThing> {
  const kind = targetKindOf(word);
  if (kind !== null) return { kind, id: word, node_instance_id: null };
  const found = await session.call('thing-find', { query: { id: word } });
  if (found.meant) return found.meant;
  if (found.items.length > 0) throw ambiguousName(session, word, found);
  if (!found.known) throw unknownId(session, word);
  throw new CliFailure('failed', `${printable(word)} was a request that touched no machine`, {
    remedy: `See what the request did: ${session.commandLine('timeline', word)}`,
  });
}

/** Returns the id of an allocation. The word names it, its machine, or an operation on it. */
export async function resolveAllocation(session: Session, word: string): Promise<string> {
  const { kind, id } = await resolveThing(session, word);
  if (kind === 'allocation') return id;
  const { allocation_id } =
    kind === 'node'
      ? await session.call('node-get', { params: { id } })
      : await session.call('operation-get', { params: { id } });
  if (allocation_id) return allocation_id;
  throw new CliFailure('failed', `${id} belongs to no allocation`, {
    remedy: `See what you can do about ${id}: ${session.commandLine('actions', id)}`,
  });
}

export interface ResolvedNode {
  node_id: string;
  /** Set if the id names one instance of the machine. */
  node_instance_id: string | null;
  /** The allocation or operation that the user named instead of the machine. */
  reference: Allocation | Operation | null;
}

/** The result for an allocation or operation that has no machine, or none yet. */
export interface WithoutMachine {
  node_id: null;
  id: string;
  reference: Allocation | Operation;
}

export const isAllocation = (reference: ResolvedNode['reference']): reference is Allocation =>
  reference !== null && 'tenant' in reference;

export async function resolveNodeIfAny(session: Session, word: string): Promise<ResolvedNode | WithoutMachine> {
  const { kind, id, node_instance_id } = await resolveThing(session, word);
  if (kind === 'node') return { node_id: id, node_instance_id, reference: null };
  const reference =
    kind === 'allocation'
      ? await session.call('allocation-get', { params: { id } })
      : await session.call('operation-get', { params: { id } });
  return reference.node_id
    ? { node_id: reference.node_id, node_instance_id, reference }
    : { node_id: null, id, reference };
}

/** Returns undefined if the caller may not see the object, or if it does not exist. */
export async function ignoreInvisible<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof RequestRefused && [403, 404, 410].includes(error.problem.status)) return undefined;
    throw error;
  }
}

/** Returns null without an id, or if the caller may no longer see the node. */
export async function fetchNodeIfVisible(session: Session, id: string | null): Promise<Node | null> {
  if (id === null) return null;
  return (await ignoreInvisible(session.call('node-get', { params: { id } }))) ?? null;
}

const statusSentence = (reference: Allocation | Operation): string => {
  const reason = 'reason' in reference ? reference.reason : reference.error?.message;
  return `It is ${reference.status}${reason ? `: ${printable(reason)}` : ''}.`;
};

/** A failed allocation gets a machine only if somebody retries it. */
const hasEnded = (reference: Allocation | Operation): boolean =>
  isAllocation(reference)
    ? reference.status === 'failed' || reference.status === 'released'
    : reference.finished_at !== null;

/** `consequence` ends the sentence: "… has no machine yet, so there are no logs". */
export function withoutMachine(session: Session, { id, reference }: WithoutMachine, consequence: string): CliFailure {
  const ended = hasEnded(reference);
  return new CliFailure(
    'failed',
    `${id} ${ended ? 'ended without a machine' : 'has no machine yet'}, so ${consequence}`,
    {
      why: statusSentence(reference),
      remedy: ended
        ? `See what happened: ${session.commandLine('timeline', id)}`
        : `Follow it until it gets a machine: ${session.commandLine('watch', id)}`,
    },
  );
}

/**
 * Resolves the id of a machine, or of an allocation or operation on it. Fails if there is no
 * machine.
 */
export async function resolveNode(session: Session, word: string, consequence: string): Promise<ResolvedNode> {
  const resolved = await resolveNodeIfAny(session, word);
  if (resolved.node_id === null) throw withoutMachine(session, resolved, consequence);
  return resolved;
}
