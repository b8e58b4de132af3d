/** Whether a release ended without proof, and how much it left on the residue ledger. */
import { RequestRefused } from '../../contract/client.ts';
import type { Residue } from '../../contract/residue.ts';
import { collect } from '../connection/pages.ts';
import type { Session } from '../connection/session.ts';
import type { Subject } from './subject.ts';

const mostLooked = 2000;

const isForced = ({ allocation, operation }: Subject): boolean =>
  allocation
    ? allocation.status === 'released' && /^released by force \(.*\) without proof/s.test(allocation.reason ?? '')
    : operation?.kind === 'allocation-force-release' &&
      /^Released without proof/.test(operation.progress.message ?? '');

/** Undefined where there is proof. Who may not read the ledger is told of none of its entries. */
export async function leftBehind(session: Session, subject: Subject): Promise<number | undefined> {
  if (!isForced(subject)) return undefined;
  const id = subject.allocation?.allocation_id ?? subject.operation?.allocation_id;
  try {
    const { items } = await collect<Residue>(
      (paging) => session.call('residue-list', { query: { ...paging, status: 'open' } }),
      mostLooked,
    );
    return items.filter(({ allocation_id }) => allocation_id === id).length;
  } catch (error) {
    if (error instanceof RequestRefused) return 0;
    throw error;
  }
}
