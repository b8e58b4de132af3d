/** Finds resources that no node owns among those that a driver listed, and residue to verify. */
import { type Clock, now as present } from '../../base/clock.ts';
import { type NodeInstanceId, newResidueId } from '../../base/ids.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { type ResidueRow, recordFoundResidue } from '../rows/residue.ts';

export interface ListedResource {
  driver: string;
  host: string | null;
  kind: string;
  resource: string;
  node_id: string | null;
  node_instance_id: string | null;
  cost_per_hour: number | null;
}

/** Hosts may have resources with equal names, such as process ids. */
export const resourceKey = ({
  driver,
  host,
  resource,
  node_instance_id,
}: Pick<ListedResource, 'driver' | 'host' | 'resource' | 'node_instance_id'>): string =>
  JSON.stringify([driver, host, resource, node_instance_id]);

const listedRows = `jsonb_to_recordset($1::jsonb) as listed(
  driver text, host text, kind text, resource text, node_id text, node_instance_id text,
  cost_per_hour double precision, residue_id text)`;

const isUnowned = `
  -- A node owns the resources of its present instance.
  not exists (
    select 1
    from instances instance
    join nodes owner on owner.node_id = instance.node_id
    where instance.node_instance_id = listed.node_instance_id
      and owner.node_instance_id = instance.node_instance_id
      and owner.status <> 'retired')
  -- Residue that is recorded and not gone is not reported again.
  and not exists (
    select 1
    from residue known
    where known.driver = listed.driver
      and known.resource = listed.resource
      and known.status <> 'gone'
      and known.node_instance_id is not distinct from listed.node_instance_id
      and known.host is not distinct from listed.host)`;

/** Returns the keys (`resourceKey`) of the resources without an owner. */
export async function findUnowned(db: Queryable, resources: ListedResource[]): Promise<Set<string>> {
  if (resources.length === 0) return new Set();
  const rows = await db.query<ListedResource>(
    `select listed.driver, listed.host, listed.resource, listed.node_instance_id
     from ${listedRows}
     where ${isUnowned}`,
    [JSON.stringify(resources)],
  );
  return new Set(rows.map(resourceKey));
}

/** Checks ownership again in the insert, because an owner may have appeared since `findUnowned`. */
export async function addOrphans(tx: Transaction, orphans: ListedResource[], clock: Clock): Promise<number> {
  if (orphans.length === 0) return 0;
  const now = present(clock);
  const rows = await tx.query<ResidueRow>(
    `insert into residue (
       residue_id, driver, pool, host, kind, resource, node_id, node_instance_id, why, reason, since,
       seen_at, verified_at, seen, cost_per_hour)
     select
       listed.residue_id, listed.driver, former.pool, listed.host, listed.kind, listed.resource,
       listed.node_id, listed.node_instance_id, 'orphan',
       case
         when former.node_id is null then 'it carries our tags, and we know no such machine'
         when former.status = 'retired' then 'its machine was retired'
         else 'its machine has another instance now'
       end,
       $2, $2, $2, 'the driver lists it', listed.cost_per_hour
     from ${listedRows}
     left join lateral (
       select node.node_id, node.pool, node.status
       from instances instance
       join nodes node on node.node_id = instance.node_id
       where instance.node_instance_id = listed.node_instance_id) former on true
     where ${isUnowned}
     on conflict do nothing
     returning *`,
    [JSON.stringify(orphans.map((each) => ({ ...each, residue_id: newResidueId(clock) }))), now],
  );
  await recordFoundResidue(tx, rows, now);
  return rows.length;
}

/** Updates `seen_at` of open residue that the driver still lists. */
export async function markSeen(db: Queryable, resources: ListedResource[], now: Date): Promise<void> {
  if (resources.length === 0) return;
  await db.query(
    `update residue set seen_at = $2
     from ${listedRows}
     where residue.status = 'open'
       and residue.driver = listed.driver
       and residue.resource = listed.resource
       and residue.host is not distinct from listed.host
       and residue.node_instance_id is not distinct from listed.node_instance_id`,
    [JSON.stringify(resources), now],
  );
}

/** A residue entry with its machine and driver state, as an inspection needs them. */
export interface ResidueWithMachine extends ResidueRow {
  driver_state: Record<string, string | number | boolean | null> | null;
  node_name: string | null;
  zone: string | null;
  node_status: NodeStatus | null;
  document: PoolDocument | null;
  /** Whether the node still has this instance, so that its agent may still report. */
  present: boolean;
  /** The present instance of the node; null if there is no node or the node was retired. */
  present_instance_id: NodeInstanceId | null;
  /** Whether a residue operation works on the entry. */
  busy: boolean;
}

const isBusy = `exists (
  select 1
  from operations work
  where work.workflow_id = residue.workflow_id
    and work.kind like 'residue-%'
    and work.status in ('queued', 'running', 'cancelling'))`;

const withMachine = `
  select
    residue.*, instance.driver_state, node.name as node_name, node.zone, node.status as node_status,
    generation.document,
    coalesce(node.node_instance_id = residue.node_instance_id and node.status <> 'retired', false) as present,
    case when node.status <> 'retired' then node.node_instance_id end as present_instance_id,
    ${isBusy} as busy
  from residue
  left join instances instance on instance.node_instance_id = residue.node_instance_id
  left join nodes node on node.node_id = instance.node_id
  left join pool_generations generation on generation.pool = node.pool and generation.generation = node.pool_generation`;

export async function readResidueWithMachine(db: Queryable, id: string): Promise<ResidueWithMachine | undefined> {
  return (await db.query<ResidueWithMachine>(`${withMachine} where residue.residue_id = $1`, [id]))[0];
}

/**
 * Returns open entries that no operation works on and these drivers can inspect, longest unverified
 * first.
 */
export function findResidueToVerify(
  db: Queryable,
  drivers: { driver: string; host: string | null }[],
  verified_before: Date,
  limit: number,
): Promise<ResidueWithMachine[]> {
  return db.query<ResidueWithMachine>(
    `${withMachine}
     where residue.status = 'open'
       and (residue.verified_at is null or residue.verified_at <= $2)
       and not ${isBusy}
       and exists (
         select 1
         from jsonb_to_recordset($1::jsonb) as here(driver text, host text)
         where here.driver = residue.driver
           and (residue.host is null or residue.host = here.host))
     order by residue.verified_at nulls first
     limit $3`,
    [JSON.stringify(drivers), verified_before, limit],
  );
}
