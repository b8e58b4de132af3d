/** Lists, repairs and accepts findings, and verifies stored rows against evidence. */
import { iso } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { Finding } from '../../contract/supervision/finding.ts';
import { renderFinding } from '../../lifecycle/findings/finding-says.ts';
import { findingCatalogue } from '../../lifecycle/findings/findings.ts';
import { acceptFinding, type FindingOutcome, repairFinding } from '../../operations/actions/findings.ts';
import type { ComparedTable } from '../../store/history/row-comparison.ts';
import { verifySlice } from '../../store/history/verify-rows.ts';
import { verifyCounts } from '../../store/rows/counts.ts';
import { type FindingRow, listFindings } from '../../store/rows/findings.ts';
import { readPageQuery } from '../http/paging.ts';
import type { ApiServices, Call, Handlers } from '../services.ts';
import { callerOf, readQueuedOperation } from './allocations.ts';

export const findingWire = (row: FindingRow): Finding => ({
  ...row,
  owner_layer: findingCatalogue[row.what].owner,
  says: renderFinding(row),
  ways_out: [...findingCatalogue[row.what].ways_out],
  first_seen_at: row.first_seen_at.toISOString(),
  seen_at: row.seen_at.toISOString(),
  opened_at: iso(row.opened_at),
  closed_at: iso(row.closed_at),
});

const decisionReply = async (
  outcome: FindingOutcome,
  call: Call<'drift-repair' | 'drift-accept'>,
  services: ApiServices,
) => ({
  finding: findingWire(outcome.finding),
  operation: await readQueuedOperation(outcome, call.person(), services),
  dry_run: call.body.dry_run ?? false,
  predicts: { says: outcome.says },
});

const tables = ['nodes', 'allocations'] as const;
const pageRows = 500;

/** A cursor names a table and the last row of the previous page, such as `nodes:node_…`. */
function parseCursor(cursor: string | undefined): { table: ComparedTable; after: string } {
  if (cursor === undefined) return { table: 'nodes', after: '' };
  const [, table, after] = /^(nodes|allocations):([A-Za-z0-9_.:-]{0,128})$/.exec(cursor) ?? [];
  if (table === undefined || after === undefined) throw new ApiProblem('invalid_cursor');
  return { table: table as ComparedTable, after };
}

export const driftHandlers: Pick<Handlers, 'drift-list' | 'store-verify' | 'drift-repair' | 'drift-accept'> = {
  async 'drift-list'({ query }, { db }) {
    const page = await listFindings(db, { ...readPageQuery(query), status: query?.status ?? 'open' });
    return { ...page, items: page.items.map(findingWire) };
  },
  async 'store-verify'({ query }, { db, environment }) {
    const { table, after } = parseCursor(query?.cursor);
    const slice = { cursor: after, limit: query?.limit ?? pageRows };
    const { compared, differing, unretired, untold, cursor } = await verifySlice(
      db,
      table,
      slice,
      environment.retention.keep_seconds,
    );
    const nextCursor = cursor ? `${table}:${cursor}` : tables[tables.indexOf(table) + 1];
    const isLast = nextCursor === undefined;
    const miscounted = isLast ? await verifyCounts(db) : [];
    return {
      compared,
      untold,
      items: differing,
      unretired: unretired.map(({ node_id, pool, status, status_since, allocation_id, proof, proven_at }) => ({
        ...{ node_id, pool, status, allocation_id, proof },
        status_since: status_since.toISOString(),
        proven_at: proven_at.toISOString(),
      })),
      ...(isLast && { miscounted: miscounted.map(({ held_rule: _, held_kind: __, on_node: ___, ...each }) => each) }),
      next_cursor: isLast ? null : nextCursor.includes(':') ? nextCursor : `${nextCursor}:`,
    };
  },
  async 'drift-repair'(call, services) {
    const { params, body } = call;
    return decisionReply(await repairFinding(services, params.id, body, callerOf(call, body.reason)), call, services);
  },
  async 'drift-accept'(call, services) {
    const { params, body } = call;
    return decisionReply(await acceptFinding(services, params.id, body, callerOf(call, body.reason)), call, services);
  },
};
