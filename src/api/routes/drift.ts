/** Findings: what disagrees or fails again and again, and what a person decides about it. */
import type { Finding } from '../../contract/finding.ts';
import { findingWhats } from '../../lifecycle/findings.ts';
import { acceptFinding, type FindingOutcome, repairFinding } from '../../operations/findings.ts';
import { type FindingRow, listFindings } from '../../store/findings.ts';
import { pageOf } from '../paging.ts';
import type { ApiServices, Handlers } from '../services.ts';
import { askerOf, operationOf } from './allocations.ts';

const iso = (date: Date | null) => date?.toISOString() ?? null;

export const findingWire = (row: FindingRow): Finding => ({
  ...row,
  says: findingWhats[row.what].says,
  first_seen_at: row.first_seen_at.toISOString(),
  seen_at: row.seen_at.toISOString(),
  opened_at: iso(row.opened_at),
  closed_at: iso(row.closed_at),
});

const decided = async (outcome: FindingOutcome, services: ApiServices, dry_run = false) => ({
  finding: findingWire(outcome.finding),
  operation: await operationOf(outcome, services),
  dry_run,
  predicts: { says: outcome.says },
});

export const driftHandlers: Pick<Handlers, 'drift-list' | 'drift-repair' | 'drift-accept'> = {
  async 'drift-list'({ query }, { db }) {
    const page = await listFindings(db, { ...pageOf(query), status: query?.status ?? 'open' });
    return { ...page, items: page.items.map(findingWire) };
  },
  async 'drift-repair'(call, services) {
    const { params, body } = call;
    return decided(await repairFinding(services, params.id, body, askerOf(call, body.reason)), services, body.dry_run);
  },
  async 'drift-accept'(call, services) {
    const { params, body } = call;
    return decided(await acceptFinding(services, params.id, body, askerOf(call, body.reason)), services, body.dry_run);
  },
};
