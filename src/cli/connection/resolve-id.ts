/** Resolves an id or a name, copied from any table, log, error or page, to the thing it names. */
import type { Allocation } from '../../contract/allocation.ts';
import { RequestRefused } from '../../contract/client.ts';
import type { Found } from '../../contract/fleet/find.ts';
import type { Node } from '../../contract/node.ts';
import type { Operation } from '../../contract/operation.ts';
import { printable } from '../render/text/text.ts';
import { CliFailure } from '../terminal/failure.ts';
import { kindOfId, type Target } from '../wait/subject.ts';
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
  const shown = items.slice(0, maxListed).map(({ kind, id, status }) => `${id} (${kind}, ${status})`);
  const more = items.length > maxListed ? ` and ${items.length - maxListed} more` : '';
  const what = as_request ? 'was one request about several things' : 'names several things';
  const history = session.commandLine('timeline', as_request ? word : (items[0]?.id ?? word));
  return new CliFailure('usage', `${printable(word)} ${what}`, {
    why: `${shown.join(', ')}${more}.`,
    remedy: `Name one of them by its id. To see all that was done: ${history}`,
  });
}

export async function resolveThing(session: Session, word: string): Promise<ResolvedThing> {
  const kind = kindOfId(word);
  if (kind !== null) return { kind, id: word, node_instance_id: null };
  const found = await session.call('thing-find', { query: { id: word } });
  if (found.meant) return found.meant;
  if (found.items.length > 0) throw ambiguousName(session, word, found);
  if (!found.known) throw unknownId(session, word);
  throw new CliFailure('failed', `${printable(word)} was a request that touched no machine`, {
    remedy: `See what it did: ${session.commandLine('timeline', word)}`,
  });
}

/** The id of an allocation, named directly or by its machine or an operation on it. */
export async function resolveAllocation(session: Session, word: string): Promise<string> {
  const { kind, id } = await resolveThing(session, word);
  if (kind === 'allocation') return id;
  const { allocation_id } =
    kind === 'node'
      ? await session.call('node-get', { params: { id } })
      : await session.call('operation-get', { params: { id } });
  if (allocation_id) return allocation_id;
  throw new CliFailure('failed', `${id} belongs to no allocation`, {
    remedy: `See what you can do about it: ${session.commandLine('actions', id)}`,
  });
}

export interface ResolvedNode {
  node_id: string;
  /** Set if the id names one instance of the machine. */
  node_instance_id: string | null;
  /** The allocation or operation that was named instead of the machine. */
  through: Allocation | Operation | null;
}

/** The allocation or operation exists, but has no machine, or none yet. */
export interface WithoutMachine {
  node_id: null;
  id: string;
  through: Allocation | Operation;
}

export const isAllocation = (through: ResolvedNode['through']): through is Allocation =>
  through !== null && 'tenant' in through;

export async function resolveNodeIfAny(session: Session, word: string): Promise<ResolvedNode | WithoutMachine> {
  const { kind, id, node_instance_id } = await resolveThing(session, word);
  if (kind === 'node') return { node_id: id, node_instance_id, through: null };
  const through =
    kind === 'allocation'
      ? await session.call('allocation-get', { params: { id } })
      : await session.call('operation-get', { params: { id } });
  return through.node_id ? { node_id: through.node_id, node_instance_id, through } : { node_id: null, id, through };
}

/** Null without an id, or if the caller may no longer see the node. */
export async function fetchNodeIfVisible(session: Session, id: string | null): Promise<Node | null> {
  if (id === null) return null;
  try {
    return await session.call('node-get', { params: { id } });
  } catch (error) {
    if (error instanceof RequestRefused) return null;
    throw error;
  }
}

const statusSentence = (through: Allocation | Operation): string => {
  const reason = 'reason' in through ? through.reason : through.error?.message;
  return `It is ${through.status}${reason ? `: ${printable(reason)}` : ''}.`;
};

/** `consequence` ends the sentence: "… has no machine yet, so there are no logs". */
export const noMachineYet = (session: Session, { id, through }: WithoutMachine, consequence: string): CliFailure =>
  new CliFailure('failed', `${id} has no machine yet, so ${consequence}`, {
    why: statusSentence(through),
    remedy: `Follow it until it has one: ${session.commandLine('watch', id)}`,
  });

/** The machine, named directly or by anything on it. Fails if there is none. */
export async function resolveNode(session: Session, word: string, consequence: string): Promise<ResolvedNode> {
  const resolved = await resolveNodeIfAny(session, word);
  if (resolved.node_id === null) throw noMachineYet(session, resolved, consequence);
  return resolved;
}
