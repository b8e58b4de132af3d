/** What a machine reported while nobody or another tenant had it is not shown to its next tenant. */
import { recordEvidence } from '../evidence/evidence.ts';
import type { Transaction } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';

/** In the order in which beats are stored, so that the two never wait for each other in a circle. */
const clearSql = `
  with former as materialized (
    select node_instance_id, reported
    from heartbeats
    where node_instance_id = any($1)
    order by node_instance_id collate "C"
    for update),
  cleared as (
    update heartbeats kept set reported = null,
      -- By the clock of the database, at this moment: the replica's may be behind it, and it may have waited for locks since.
      -- A clock further away is a simulated one and is taken as it is.
      reports_since = case
        when clock_timestamp() - $2::timestamptz between interval '0' and interval '1 minute' then clock_timestamp()
        else $2::timestamptz
      end
    from former
    where kept.node_instance_id = former.node_instance_id)
  select node_instance_id, reported from former where reported is not null`;

/**
 * Clears the last report of machines that go to a new tenant; the caller holds the locks on their nodes. The report is kept
 * as evidence of no allocation, which only those who run the fleet can read.
 */
export async function clearReports(tx: Transaction, nodes: readonly NodeRow[], now: Date): Promise<void> {
  const instances = nodes.flatMap(({ node_instance_id }) => node_instance_id ?? []);
  if (instances.length === 0) return;
  const cleared = await tx.query<{ node_instance_id: string; reported: Record<string, unknown> }>(
    clearSql,
    [instances, now],
    { often: true },
  );
  const reports = new Map(cleared.map(({ node_instance_id, reported }) => [node_instance_id, reported]));
  await recordEvidence(
    tx,
    nodes.flatMap(({ node_id, node_instance_id }) => {
      const reported = node_instance_id && reports.get(node_instance_id);
      if (!reported) return [];
      const summary = 'its last report was cleared, because it goes to a new tenant';
      const ids = { node_id, node_instance_id, allocation_id: null };
      return [
        { at: now, layer: 'node' as const, kind: 'node.reports_cleared' as const, summary, data: { reported }, ...ids },
      ];
    }),
  );
}
