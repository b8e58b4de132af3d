/** The machine that a person means: named by its own id, or by an allocation or operation that is on it. */
import type { Allocation } from '../contract/allocation.ts';
import type { Operation } from '../contract/operation.ts';
import { CliFailure } from './failure.ts';
import { printable } from './render/text.ts';
import type { Session } from './session.ts';
import { kindOfId } from './subject.ts';

export interface NodeBehind {
  node_id: string;
  /** What was named instead of the machine. */
  through: Allocation | Operation | null;
}

const saysWhy = (through: Allocation | Operation): string => {
  const reason = 'reason' in through ? through.reason : through.error?.message;
  return `It is ${through.status}${reason ? `: ${printable(reason)}` : ''}.`;
};

/** `so` ends the sentence that tells of one without a machine. */
export async function nodeBehind(session: Session, id: string, so: string): Promise<NodeBehind> {
  const kind = kindOfId(id);
  if (kind !== 'allocation' && kind !== 'operation') return { node_id: id, through: null };
  const through =
    kind === 'allocation'
      ? await session.call('allocation-get', { params: { id } })
      : await session.call('operation-get', { params: { id } });
  if (through.node_id) return { node_id: through.node_id, through };
  throw new CliFailure('failed', `${id} has no machine yet, so ${so}`, {
    why: saysWhy(through),
    remedy: `Follow it until it has one: ${session.commandLine('watch', id)}`,
  });
}
