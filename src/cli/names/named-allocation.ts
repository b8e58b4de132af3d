/** The allocation that a person means, by its id, its name, or what leads to it: its machine, or an operation on it. */

import type { Session } from '../connection/session.ts';
import { CliFailure } from '../terminal/failure.ts';
import { namedThing } from './named-thing.ts';

export async function namedAllocation(session: Session, word: string): Promise<string> {
  const { kind, id } = await namedThing(session, word);
  if (kind === 'allocation') return id;
  const { allocation_id } =
    kind === 'node'
      ? await session.call('node-get', { params: { id } })
      : await session.call('operation-get', { params: { id } });
  if (allocation_id) return allocation_id;
  throw new CliFailure('failed', `${id} belongs to no allocation`, {
    remedy: `See what can be done about it: ${session.commandLine('actions', id)}`,
  });
}
