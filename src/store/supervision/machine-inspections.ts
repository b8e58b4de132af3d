/** Selects machines to inspect, and records when they were inspected and with which result. */
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { type JudgedNode, judgedColumns } from '../rows/judged.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { listPoolsOfDrivers } from '../rows/pools.ts';
import { isProvenAbsent } from '../rows/proven-absent.ts';
import { amendNodes } from '../transitions/amend-node.ts';

/** Everything that a driver needs to inspect a machine. */
export interface ExpectedMachine
  extends Pick<
    NodeRow,
    'node_id' | 'pool' | 'name' | 'zone' | 'status' | 'status_since' | 'workflow_id' | 'correlation_id'
  > {
  node_instance_id: NodeInstanceId;
  driver: string;
  driver_state: Record<string, string | number | boolean | null>;
  spec: unknown;
}

export interface InspectionQuery {
  /** The drivers that this replica can ask. */
  drivers: readonly string[];
  /** Machines inspected later are not due yet. */
  inspected_before: Date;
  /** Quarantined machines inspected later are not due yet. */
  quarantined_inspected_before: Date;
}

const selectExpected = `
  select
    node.node_id, node.node_instance_id, node.pool, node.name, node.zone, node.status, node.status_since,
    node.workflow_id, node.correlation_id, pool.driver, instance.driver_state,
    coalesce(generation.document -> 'spec', '{}') as spec
  from nodes node
  join instances instance on instance.node_instance_id = node.node_instance_id
  join pools pool on pool.name = node.pool
  join pool_generations generation on generation.pool = node.pool and generation.generation = node.pool_generation
  left join node_looks look on look.node_id = node.node_id
  where node.status in ('starting', 'ready', 'degraded', 'offline', 'quarantined')`;

/** Returns the next due machines after `cursor` in id order, so that each gets its turn. */
export async function findMachinesToInspect(
  db: Queryable,
  { drivers, inspected_before, quarantined_inspected_before }: InspectionQuery,
  cursor: string,
  limit: number,
): Promise<ExpectedMachine[]> {
  const pools = await listPoolsOfDrivers(db, drivers);
  if (pools.length === 0) return [];
  // Passing the pool names tells the planner how few machines match; otherwise it scans the fleet.
  return db.query<ExpectedMachine>(
    `${selectExpected}
       and node.pool = any($1)
       and node.node_id > $4
       and coalesce(look.looked_at, '-infinity')
         <= case node.status when 'quarantined' then $3::timestamptz else $2::timestamptz end
     order by node.node_id
     limit $5`,
    [pools, inspected_before, quarantined_inspected_before, cursor, limit],
  );
}

/** Returns machines that an inspection did not find. They are inspected again out of turn. */
export const findMachinesWithFinding = (
  db: Queryable,
  { drivers, inspected_before }: InspectionQuery,
  limit: number,
): Promise<ExpectedMachine[]> =>
  db.query<ExpectedMachine>(
    `${selectExpected}
       and pool.driver = any($1)
       and coalesce(look.looked_at, '-infinity') <= $2
       and node.node_id = any(array(
         select subject
         from findings
         where what = 'machine_absent'
           and closed_at is null))
     order by look.looked_at nulls first
     limit $3`,
    [drivers, inspected_before, limit],
  );

export async function recordInspections(db: Queryable, nodes: readonly NodeId[], now: Date): Promise<void> {
  if (nodes.length === 0) return;
  await db.query(
    `insert into node_looks (node_id, looked_at)
     select node_id, $2
     from unnest($1::text[]) as inspected(node_id)
     order by node_id
     on conflict (node_id) do update set looked_at = $2`,
    [[...new Set(nodes)], now],
  );
}

/** Deletes inspections of machines that are no longer inspected. */
export async function deleteOldInspections(db: Queryable, before: Date): Promise<void> {
  await db.query('delete from node_looks where looked_at < $1', [before]);
}

/** Locks the nodes that have not changed since they were inspected. */
export function lockUnchanged(
  tx: Transaction,
  inspected: readonly Pick<ExpectedMachine, 'node_id' | 'node_instance_id' | 'status' | 'status_since'>[],
): Promise<JudgedNode[]> {
  return tx.query<JudgedNode>(
    `select ${judgedColumns}
     from nodes node
     join unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[])
       as inspected(node_id, node_instance_id, status, status_since)
       on inspected.node_id = node.node_id
       and inspected.node_instance_id = node.node_instance_id
       and inspected.status = node.status
       and inspected.status_since = node.status_since
     -- Lets the planner use the index.
     where node.node_id = any($1)
     order by node.node_id
     for no key update of node`,
    [
      inspected.map(({ node_id }) => node_id),
      inspected.map(({ node_instance_id }) => node_instance_id),
      inspected.map(({ status }) => status),
      inspected.map(({ status_since }) => status_since),
    ],
  );
}

/** Records the provider's state on the row and as evidence. */
export async function recordObservations(
  tx: Transaction,
  observed: readonly { node: JudgedNode; state: string }[],
  now: Date,
): Promise<void> {
  await amendNodes(
    tx,
    observed.map(({ node, state }) => ({
      node,
      set: { observed_state: state, observed_at: now },
      fact: {
        at: now,
        layer: 'provider',
        kind: 'node.observed',
        summary: `the provider shows the machine as ${state}`,
      },
    })),
  );
}

/** Returns the given instances that were proven absent. */
export async function findProvenAbsent(
  db: Queryable,
  instances: readonly NodeInstanceId[],
): Promise<Set<NodeInstanceId>> {
  if (instances.length === 0) return new Set();
  const rows = await db.query<{ node_instance_id: NodeInstanceId }>(
    `select node_instance_id
     from unnest($1::text[]) as instance(node_instance_id)
     where ${isProvenAbsent('instance.node_instance_id')}`,
    [instances],
  );
  return new Set(rows.map(({ node_instance_id }) => node_instance_id));
}

/** Returns findings about absent machines that are not expected, were replaced or proven absent. */
export const findObsoleteFindings = (db: Queryable, limit: number): Promise<{ finding_id: string }[]> =>
  db.query(
    `select finding.finding_id
     from findings finding
     where finding.what = 'machine_absent'
       and finding.closed_at is null
       and (
         not exists (
           select 1
           from nodes node
           where node.node_id = finding.node_id
             and node.node_instance_id = finding.node_instance_id
             and node.status in ('starting', 'ready', 'degraded', 'offline', 'quarantined'))
         or ${isProvenAbsent('finding.node_instance_id')})
     limit $1`,
    [limit],
  );
