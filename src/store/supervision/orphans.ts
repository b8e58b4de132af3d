/** Statements of the `orphans` sweep. Each handles all resources that a driver listed at once. */
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

const listed = `jsonb_to_recordset($1::jsonb) as listed(driver text, host text, kind text, resource text, node_id text, node_instance_id text,
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

export async function findUnowned(db: Queryable, all: ListedResource[]): Promise<Set<string>> {
  if (all.length === 0) return new Set();
  const rows = await db.query<{ resource: string }>(
    `select listed.resource
     from ${listed}
     where ${isUnowned}`,
    [JSON.stringify(all)],
  );
  return new Set(rows.map((row) => row.resource));
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
     from ${listed}
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
export async function markSeen(db: Queryable, all: ListedResource[], now: Date): Promise<void> {
  if (all.length === 0) return;
  await db.query(
    `update residue set seen_at = $2
     from ${listed}
     where residue.status = 'open'
       and residue.driver = listed.driver
       and residue.resource = listed.resource
       and residue.node_instance_id is not distinct from listed.node_instance_id`,
    [JSON.stringify(all), now],
  );
}

/** A residue entry with its machine and driver state, as an inspection needs them. */
export interface ResidueWithMachine extends ResidueRow {
  driver_state: Record<string, string | number | boolean | null> | null;
  node_name: string | null;
  zone: string | null;
  node_status: NodeStatus | null;
  document: PoolDocument | null;
  /** The node still has this instance, so an agent may still report for it. */
  present: boolean;
  /** The present instance of the node; null if there is no node or the node was retired. */
  present_instance_id: NodeInstanceId | null;
  /** An operation works on the entry. */
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

export async function residueWithMachine(db: Queryable, id: string): Promise<ResidueWithMachine | undefined> {
  return (await db.query<ResidueWithMachine>(`${withMachine} where residue.residue_id = $1`, [id]))[0];
}

/** Returns open entries that no operation works on and these drivers can inspect, oldest first. */
export function residueToVerify(
  db: Queryable,
  drivers: { driver: string; host: string | null }[],
  not_since: Date,
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
    [JSON.stringify(drivers), not_since, limit],
  );
}
