/** Checks that the ids in facts from outside are known, fit each other, and are the caller's to name. */
import type { OutsideFact } from '../../contract/evidence/evidence.ts';
import type { Queryable } from '../pg/database.ts';
import { withHolder } from '../rows/nodes.ts';

export interface Misplaced {
  /** The place of the fact in the list. */
  place: number;
  id: 'node_id' | 'node_instance_id' | 'allocation_id' | 'workflow_id';
}

/**
 * A tenant may name its allocations that are not released, the machine and the instance that one of them holds now, and the
 * operations on it. A former tenant adds nothing to the story of a machine that others may have.
 */
const misplacedSql = `
  select fact.place::int - 1 as place, wrong.id
  from rows from (jsonb_to_recordset($1::jsonb) as (node_id text, node_instance_id text, allocation_id text, workflow_id text))
    with ordinality as fact(node_id, node_instance_id, allocation_id, workflow_id, place)
  left join allocations allocation on allocation.allocation_id = fact.allocation_id
  left join instances instance on instance.node_instance_id = fact.node_instance_id
  left join nodes node on node.node_id = fact.node_id
  left join operations operation on operation.workflow_id = fact.workflow_id
  -- The machine that the named allocation holds now, with its present instance.
  left join lateral (
    select node.node_id, node.node_instance_id
    from nodes node ${withHolder}
    where node.node_id = allocation.node_id and holder.allocation_id = allocation.allocation_id) own on $2::text is not null
  cross join lateral (values
    ('allocation_id',
      case when fact.allocation_id is null then $2::text is not null
      else allocation.allocation_id is null or ($2 is not null and (allocation.tenant <> $2 or allocation.status = 'released')) end),
    ('node_instance_id',
      fact.node_instance_id is not null
      and (instance.node_instance_id is null or instance.node_id <> fact.node_id
        or ($2 is not null and fact.node_instance_id is distinct from own.node_instance_id))),
    ('node_id',
      fact.node_id is not null and (node.node_id is null or ($2 is not null and fact.node_id is distinct from own.node_id))),
    ('workflow_id',
      fact.workflow_id is not null and (operation.workflow_id is null
        or ($2 is not null and operation.tenant is distinct from $2 and operation.allocation_id is distinct from allocation.allocation_id)))
  ) as wrong(id, is_wrong)
  where wrong.is_wrong
  order by 1`;

/** An unknown id and one of another tenant look the same to the caller. */
export const misplacedIds = (db: Queryable, facts: OutsideFact[], tenant: string | null): Promise<Misplaced[]> =>
  db.query<Misplaced>(misplacedSql, [JSON.stringify(facts), tenant]);
