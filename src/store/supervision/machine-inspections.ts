/** The machines to inspect, the time of their last inspection, and its results. */
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import { isOwn } from '../evidence/own-facts.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { type JudgedNode, judgedColumns } from '../rows/judged.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { poolsOfDrivers } from '../rows/pools.ts';
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
  /** Only machines of these drivers can be inspected here. */
  drivers: readonly string[];
  /** Not inspected since. */
  looked_before: Date;
  /** The same for quarantined machines. */
  parked_looked_before: Date;
}

const expected = `
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

/** The next machines after `cursor`, by id, so that every machine has its turn. */
export async function machinesAfter(
  db: Queryable,
  { drivers, looked_before, parked_looked_before }: InspectionQuery,
  cursor: string,
  limit: number,
): Promise<ExpectedMachine[]> {
  const pools = await poolsOfDrivers(db, drivers);
  if (pools.length === 0) return [];
  // With the names of the pools the planner knows how few machines match, and does not scan the
  // fleet.
  return db.query<ExpectedMachine>(
    `${expected}
       and node.pool = any($1)
       and node.node_id > $4
       and coalesce(look.looked_at, '-infinity')
         <= case node.status when 'quarantined' then $3::timestamptz else $2::timestamptz end
     order by node.node_id
     limit $5`,
    [pools, looked_before, parked_looked_before, cursor, limit],
  );
}

/** Machines with an open finding do not wait for their turn. */
export const machinesWithFinding = (
  db: Queryable,
  { drivers, looked_before }: InspectionQuery,
  limit: number,
): Promise<ExpectedMachine[]> =>
  db.query<ExpectedMachine>(
    `${expected}
       and pool.driver = any($1)
       and coalesce(look.looked_at, '-infinity') <= $2
       and node.node_id = any(array(
         select subject
         from findings
         where what = 'machine_absent'
           and closed_at is null))
     order by look.looked_at nulls first
     limit $3`,
    [drivers, looked_before, limit],
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

/** Machines that are no longer expected leave old inspections behind. */
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
      fact: { at: now, layer: 'provider', kind: 'node.observed', summary: `the provider shows it as ${state}` },
    })),
  );
}

/** An instance that was proven absent never comes back, so its absence is expected. */
const provenAbsent = (instance: string) => `(
  exists (
    select 1
    from evidence proof
    where proof.node_instance_id = ${instance}
      and proof.layer = 'provider'
      and proof.kind = 'proof.absent'
      and ${isOwn('proof')})
  or exists (
    select 1
    from residue entry
    where entry.node_instance_id = ${instance}
      and entry.status = 'gone'
      and entry.proof ->> 'kind' = 'absent'))`;

/** Those of the instances that were proven absent. */
export async function knownAbsent(db: Queryable, instances: readonly NodeInstanceId[]): Promise<Set<NodeInstanceId>> {
  if (instances.length === 0) return new Set();
  const rows = await db.query<{ node_instance_id: NodeInstanceId }>(
    `select node_instance_id
     from unnest($1::text[]) as missing(node_instance_id)
     where ${provenAbsent('missing.node_instance_id')}`,
    [instances],
  );
  return new Set(rows.map(({ node_instance_id }) => node_instance_id));
}

/** Findings about machines that are no longer expected, or whose node has another instance. */
export const obsoleteFindings = (db: Queryable, limit: number): Promise<{ finding_id: string }[]> =>
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
         or ${provenAbsent('finding.node_instance_id')})
     limit $1`,
    [limit],
  );
