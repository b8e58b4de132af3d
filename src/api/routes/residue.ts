/** The residue ledger: read, verified, adopted, deleted. */
import { now } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors.ts';
import {
  adoptResidue,
  type ResidueTouched,
  requestResidueDelete,
  requestResidueVerify,
} from '../../operations/residue-requests.ts';
import { readOperation } from '../../store/operations.ts';
import { listResidue, residueRow, residueWire } from '../../store/residue.ts';
import { pageOf } from '../paging.ts';
import type { ApiServices, Handlers } from '../services.ts';
import { askerOf } from './allocations.ts';

async function touchedWire({ residue_id, workflow_id }: ResidueTouched, { db, clock }: ApiServices) {
  const row = await residueRow(db, residue_id);
  if (!row) throw new ApiProblem('residue_not_found');
  const operation = workflow_id ? await readOperation(db, workflow_id, null, now(clock)) : undefined;
  return { residue: residueWire(row), operation: operation ?? null };
}

type ResidueRoutes = 'residue-list' | 'residue-adopt' | 'residue-delete' | 'residue-verify';

export const residueHandlers: Pick<Handlers, ResidueRoutes> = {
  'residue-list': ({ query }, services) => listResidue(services.db, pageOf(query)),
  'residue-adopt': async (call, services) =>
    touchedWire(await adoptResidue(services, call.params.id, askerOf(call, call.body.reason)), services),
  'residue-delete': async (call, services) =>
    touchedWire(await requestResidueDelete(services, call.params.id, askerOf(call, call.body.reason)), services),
  'residue-verify': async (call, services) =>
    touchedWire(await requestResidueVerify(services, call.params.id, askerOf(call, call.body.reason)), services),
};
