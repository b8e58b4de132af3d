/** The machine that a person means: named by its own id, by an allocation or operation that is on it, or by anything that leads to one. */
import type { Allocation } from '../../contract/allocation.ts';
import type { Operation } from '../../contract/operation.ts';
import { namedThing } from '../names/named-thing.ts';
import { printable } from '../render/text/text.ts';
import { CliFailure } from '../terminal/failure.ts';
import type { Session } from './session.ts';

export interface NodeBehind {
  node_id: string;
  /** Set where one incarnation of it was named. */
  node_instance_id: string | null;
  /** What was named instead of the machine. */
  through: Allocation | Operation | null;
}

export const isAllocation = (through: NodeBehind['through']): through is Allocation =>
  through !== null && 'tenant' in through;

const saysWhy = (through: Allocation | Operation): string => {
  const reason = 'reason' in through ? through.reason : through.error?.message;
  return `It is ${through.status}${reason ? `: ${printable(reason)}` : ''}.`;
};

/** What was named has no machine, or none yet. */
export interface Machineless {
  node_id: null;
  id: string;
  through: Allocation | Operation;
}

export async function whatIsBehind(session: Session, word: string): Promise<NodeBehind | Machineless> {
  const { kind, id, node_instance_id } = await namedThing(session, word);
  if (kind === 'node') return { node_id: id, node_instance_id, through: null };
  const through =
    kind === 'allocation'
      ? await session.call('allocation-get', { params: { id } })
      : await session.call('operation-get', { params: { id } });
  return through.node_id ? { node_id: through.node_id, node_instance_id, through } : { node_id: null, id, through };
}

/** `so` ends the sentence. */
export const hasNoMachine = (session: Session, { id, through }: Machineless, so: string): CliFailure =>
  new CliFailure('failed', `${id} has no machine yet, so ${so}`, {
    why: saysWhy(through),
    remedy: `Follow it until it has one: ${session.commandLine('watch', id)}`,
  });

export async function nodeBehind(session: Session, word: string, so: string): Promise<NodeBehind> {
  const behind = await whatIsBehind(session, word);
  if (behind.node_id === null) throw hasNoMachine(session, behind, so);
  return behind;
}
