/** Whether a release ended without proof, and how much it left on the residue ledger. */
import { RequestRefused } from '../../contract/client.ts';
import type { Residue } from '../../contract/supervision/residue.ts';
import { collect } from '../connection/pages.ts';
import type { Session } from '../connection/session.ts';
import type { Subject } from './subject.ts';

const mostLooked = 2000;

/**
 * The allocation whose release may have ended by force. An ordinary release ends with proof or not
 * at all.
 */
function mayBeForced({ allocation, operation }: Subject): string | null {
  if (!allocation) return operation?.kind === 'allocation-force-release' ? operation.allocation_id : null;
  const isOrdinary = allocation.progress?.kind === 'allocation-release';
  return allocation.status === 'released' && !isOrdinary ? allocation.allocation_id : null;
}

/** The cause on record tells: a proof ends a forced release as it ends any other. */
async function isForced(session: Session, allocation_id: string): Promise<boolean> {
  const query = { allocation_id, kind: 'allocation.released', limit: 1 };
  const page = await unlessRefused(session.call('timeline-get', { query }));
  return page?.items[0]?.data.by === 'force-release';
}

async function unlessRefused<T>(called: Promise<T>): Promise<T | undefined> {
  try {
    return await called;
  } catch (error) {
    if (error instanceof RequestRefused) return undefined;
    throw error;
  }
}

/**
 * Undefined where there is proof. A caller who may not read the ledger sees none of its entries.
 */
export async function leftBehind(session: Session, subject: Subject): Promise<number | undefined> {
  const id = mayBeForced(subject);
  if (id === null || !(await isForced(session, id))) return undefined;
  const ledger = await unlessRefused(
    collect<Residue>((paging) => session.call('residue-list', { query: { ...paging, status: 'open' } }), mostLooked),
  );
  return ledger?.items.filter(({ allocation_id }) => allocation_id === id).length ?? 0;
}
