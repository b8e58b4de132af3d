/** Finds nodes with an open drift finding, in pools with a repair or quarantine policy. */
import type { DriftPolicy, FindingWhat } from '../../lifecycle/findings/findings.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { type JudgedNode, judgedColumns } from '../rows/judged.ts';
import { isUncovered } from '../rows/maintenance.ts';
import { isRecordedOnly } from '../transitions/would-have.ts';
import type { ScopeCount } from './past-deadline.ts';

export interface DriftedNode extends JudgedNode {
  finding_id: string;
  what: Extract<FindingWhat, 'machine_absent' | 'row_differs'>;
  policy: Exclude<DriftPolicy, 'report'>;
  opened_at: Date;
  ours: Record<string, unknown>;
  theirs: Record<string, unknown>;
}

/** SQL: the current policy of the pool, which applies to machines of earlier generations too. */
const currentPolicy = `(present.document #>> '{drift,policy}')`;

const fromDrifted = `
  from findings finding
  join nodes node on node.node_id = finding.subject
  join pools pool on pool.name = node.pool
  join pool_generations present on present.pool = pool.name and present.generation = pool.generation
  where finding.status = 'open'
    and finding.what in ('machine_absent', 'row_differs')
    and ${currentPolicy} in ('repair', 'quarantine')
    -- An absent machine is drift only while the node's status expects a machine.
    and (
      finding.what <> 'machine_absent'
      or (node.node_instance_id = finding.node_instance_id
        and node.status in ('starting', 'ready', 'degraded', 'offline', 'quarantined')))
    and (${currentPolicy} = 'repair' or node.status not in ('quarantined', 'retired'))
    and (node.held is null or (node.held ->> 'held_until')::timestamptz <= $1)
    and not ${isRecordedOnly}`;

export function lockDriftedNodes(
  tx: Transaction,
  now: Date,
  limit: number,
  except: readonly string[],
): Promise<DriftedNode[]> {
  return tx.query<DriftedNode>(
    `select
       ${judgedColumns},
       finding.finding_id, finding.what, finding.opened_at, finding.ours, finding.theirs,
       ${currentPolicy} as policy
     ${fromDrifted}
       and node.node_id <> all($3)
     order by finding.opened_at
     limit $2
     for no key update of node skip locked`,
    [now, limit, except],
  );
}

export const countDriftedNodes = (db: Queryable, now: Date, exclude: readonly string[]): Promise<ScopeCount[]> =>
  db.query<ScopeCount>(
    `select node.pool, node.zone, count(distinct node.node_id)::int as count
     ${fromDrifted}
       and node.node_id <> all($2)
       and ${isUncovered('$1')}
     group by 1, 2`,
    [now, exclude],
  );
