/** Lists, verifies, adopts and deletes residue. */
import { now } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import {
  adoptResidue,
  type ResidueCaller,
  type ResidueResult,
  requestResidueDelete,
  requestResidueVerify,
} from '../../operations/residue/residue-requests.ts';
import { readOperation } from '../../store/operations/operations.ts';
import { listResidue, residueRow, residueWire } from '../../store/rows/residue.ts';
import { readPageQuery } from '../http/paging.ts';
import type { ApiServices, Handler, Handlers } from '../services.ts';
import { callerOf } from './allocations.ts';

type ResidueRequest = (services: ApiServices, id: string, caller: ResidueCaller) => Promise<ResidueResult>;

const createHandler =
  (request: ResidueRequest): Handler<'residue-adopt' | 'residue-delete' | 'residue-verify'> =>
  async (call, services) => {
    const { reason, dry_run = false } = call.body;
    const result = await request(services, call.params.id, { ...callerOf(call, reason), dry_run });
    const row = await residueRow(services.db, result.residue_id);
    if (!row) throw new ApiProblem('residue_not_found');
    const operation =
      result.workflow_id &&
      (await readOperation(services.db, result.workflow_id, call.person().visibility, now(services.clock)));
    return { residue: residueWire(row), operation: operation || null, dry_run, predicts: { says: result.says } };
  };

type ResidueRoutes = 'residue-list' | 'residue-adopt' | 'residue-delete' | 'residue-verify';

export const residueHandlers: Pick<Handlers, ResidueRoutes> = {
  'residue-list': ({ query }, services) => listResidue(services.db, readPageQuery(query)),
  'residue-adopt': createHandler(adoptResidue),
  'residue-delete': createHandler(requestResidueDelete),
  'residue-verify': createHandler(requestResidueVerify),
};
