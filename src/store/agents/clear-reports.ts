/** Hides the reports of a machine from its next tenant when the machine changes hands. */
import { recordEvidence } from '../evidence/evidence.ts';
import type { Transaction } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';

/** Locks the rows in the order in which heartbeats are stored, so that the two cannot deadlock. */
const clearSql = `
  with former as materialized (
    select node_instance_id, reported
    from heartbeats
    where node_instance_id = any($1)
    order by node_instance_id collate "C"
    for update),
  cleared as (
    update heartbeats beat
    set reported = null,
      -- The replica's clock may be up to a minute behind, or this statement may have waited for
      -- locks; then use the database clock. A larger difference means a simulated clock in a test.
      reports_since = case
        when clock_timestamp() - $2::timestamptz between interval '0' and interval '1 minute' then clock_timestamp()
        else $2::timestamptz
      end
    from former
    where beat.node_instance_id = former.node_instance_id)
  select node_instance_id, reported
  from former
  where reported is not null`;

/**
 * Clears the last report of machines that go to a new tenant. The caller holds the row locks on
 * their nodes. Evidence without an allocation keeps the report, so only operators of the fleet can
 * read it.
 */
export async function clearReports(tx: Transaction, nodes: readonly NodeRow[], now: Date): Promise<void> {
  const instances = nodes.flatMap(({ node_instance_id }) => node_instance_id ?? []);
  if (instances.length === 0) return;
  const cleared = await tx.query<{ node_instance_id: string; reported: Record<string, unknown> }>(
    clearSql,
    [instances, now],
    { prepared: true },
  );
  const reports = new Map(cleared.map(({ node_instance_id, reported }) => [node_instance_id, reported]));
  await recordEvidence(
    tx,
    nodes.flatMap(({ node_id, node_instance_id }) => {
      const reported = node_instance_id && reports.get(node_instance_id);
      if (!reported) return [];
      const summary = 'the last report was cleared, because the machine goes to a new tenant';
      const ids = { node_id, node_instance_id, allocation_id: null };
      return [
        { at: now, layer: 'node' as const, kind: 'node.reports_cleared' as const, summary, data: { reported }, ...ids },
      ];
    }),
  );
}
