/** What a person means by an id or a name that was copied from anywhere: a table, a log line, an error, the console. */
import type { Found } from '../../contract/fleet/find.ts';
import type { Session } from '../connection/session.ts';
import { printable } from '../render/text/text.ts';
import { CliFailure } from '../terminal/failure.ts';
import { kindOfId, type Target } from '../wait/subject.ts';

export interface NamedThing extends Target {
  /** Set where one incarnation of the machine was named. */
  node_instance_id: string | null;
}

export const nothingKnownAbout = (session: Session, word: string): CliFailure =>
  new CliFailure('failed', `Nothing is known about ${printable(word)}`, {
    why: 'No node, instance, allocation, operation or request has this id or name, or your token may not see it.',
    remedy: `Check it for a slip; see what there is: ${session.commandLine('nodes', '--all')}`,
  });

const listed = 5;

function severalMeant(session: Session, word: string, { items, as_request }: Found): CliFailure {
  const shown = items.slice(0, listed).map(({ kind, id, status }) => `${id} (${kind}, ${status})`);
  const more = items.length > listed ? ` and ${items.length - listed} more` : '';
  const what = as_request ? 'was one request about several things' : 'names several things';
  return new CliFailure('usage', `${printable(word)} ${what}`, {
    why: `${shown.join(', ')}${more}.`,
    remedy: `Name one of them by its id; all that was done: ${session.commandLine('timeline', as_request ? word : (items[0]?.id ?? word))}`,
  });
}

export async function namedThing(session: Session, word: string): Promise<NamedThing> {
  const kind = kindOfId(word);
  if (kind !== null) return { kind, id: word, node_instance_id: null };
  const found = await session.call('thing-find', { query: { id: word } });
  if (found.meant) return found.meant;
  if (found.items.length > 0) throw severalMeant(session, word, found);
  if (!found.known) throw nothingKnownAbout(session, word);
  throw new CliFailure('failed', `${printable(word)} was a request that touched no machine`, {
    remedy: `See what it did: ${session.commandLine('timeline', word)}`,
  });
}
