/** What a person may do about a release that failed, as the server offers it to this token, each with the command that does it. */
import { RequestRefused } from '../../contract/client.ts';
import type { Session } from '../connection/session.ts';
import type { ClosingContext } from '../render/allocations/outcome.ts';
import { isReleaseFailed } from '../render/allocations/release-failure.ts';
import { openActionLines } from '../render/machines/actions.ts';
import type { Subject } from './subject.ts';

export async function waysOut(session: Session, { allocation }: Subject, context: ClosingContext): Promise<string[]> {
  if (!allocation || !isReleaseFailed(allocation)) return [];
  const id = allocation.allocation_id;
  try {
    const { items } = await session.call('allocation-actions', { params: { id } });
    return openActionLines(id, items, context);
  } catch (error) {
    // How it ended is told all the same.
    if (error instanceof RequestRefused) return [];
    throw error;
  }
}
