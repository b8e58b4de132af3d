/** An allocation that waits for a machine, told with how its pool stands, as far as the token may see that. */
import type { Allocation } from '../../../contract/allocation.ts';
import { RequestRefused } from '../../../contract/client.ts';
import type { Session } from '../../connection/session.ts';
import type { ClosingContext } from '../../render/allocations/outcome.ts';
import { type PoolStanding, waitingAllocationLines } from '../../render/allocations/waiting-allocation.ts';

/** A tenant sees its own things, and not the fleet. */
const refusedAs: Record<string, PoolStanding> = { scope_insufficient: 'unseen', pool_not_found: 'gone' };

async function standingOf(session: Session, pool: string): Promise<PoolStanding> {
  try {
    const [found, { items }] = await Promise.all([
      session.call('pool-get', { params: { pool } }),
      session.call('fleet-count', {}),
    ]);
    return { pool: found, counts: items };
  } catch (error) {
    const standing = error instanceof RequestRefused ? refusedAs[error.problem.code] : undefined;
    if (standing === undefined) throw error;
    return standing;
  }
}

export async function waitingForMachine(
  session: Session,
  allocation: Allocation,
  context: ClosingContext,
): Promise<string[]> {
  const [standing, { items: actions }] = await Promise.all([
    standingOf(session, allocation.pool),
    session.call('allocation-actions', { params: { id: allocation.allocation_id } }),
  ]);
  return waitingAllocationLines(allocation, { standing, actions }, context);
}
