/** Checks that the ids in facts from outside are known, consistent, and visible to the caller. */
import type { OutsideFact } from '../../contract/evidence/evidence.ts';
import type { Visibility } from '../../lifecycle/visibility.ts';
import type { Queryable } from '../pg/database.ts';
import { type Bind, parameters } from '../pg/walk.ts';
import { withHolder } from '../rows/nodes.ts';
import { ownRows } from '../visibility.ts';

export interface MisplacedId {
  /** The index of the fact in the list. */
  place: number;
  id: 'node_id' | 'node_instance_id' | 'allocation_id' | 'workflow_id';
}

/**
 * Builds the SQL conditions under which an id is wrong. A tenant may name its operations, its
 * unreleased allocations, and the node and instance that the named allocation holds now. So a
 * former tenant cannot add to a machine's history.
 */
function buildWrongIdConditions(visibility: Visibility, bind: Bind) {
  const wrong = {
    allocation_id: ['fact.allocation_id is not null and allocation.allocation_id is null'],
    node_instance_id: [
      'fact.node_instance_id is not null and (instance.node_instance_id is null or instance.node_id <> fact.node_id)',
    ],
    node_id: ['fact.node_id is not null and node.node_id is null'],
    workflow_id: ['fact.workflow_id is not null and operation.workflow_id is null'],
  };
  if (visibility.kind === 'fleet') return wrong;
  const [isOwnAllocation, isOwnOperation] = ['allocation', 'operation'].map((table) =>
    ownRows(visibility, table, bind).join(' and '),
  );
  wrong.allocation_id.push(
    'fact.allocation_id is null',
    `not coalesce(${isOwnAllocation} and allocation.status <> 'released', false)`,
  );
  wrong.node_instance_id.push(
    'fact.node_instance_id is not null and fact.node_instance_id is distinct from own.node_instance_id',
  );
  wrong.node_id.push('fact.node_id is not null and fact.node_id is distinct from own.node_id');
  // An operation without a tenant may still be about the named allocation.
  wrong.workflow_id.push(
    `fact.workflow_id is not null
      and not coalesce(${isOwnOperation}, false)
      and operation.allocation_id is distinct from allocation.allocation_id`,
  );
  return wrong;
}

/** Joins the node that the named allocation holds now, with its current instance. */
const heldByAllocation = `
  left join lateral (
    select node.node_id, node.node_instance_id
    from nodes node ${withHolder}
    where node.node_id = allocation.node_id
      and holder.allocation_id = allocation.allocation_id
  ) own on true`;

/** Finds the wrong ids. An unknown id and an id of another tenant look the same to the caller. */
export function findMisplacedIds(db: Queryable, facts: OutsideFact[], visibility: Visibility): Promise<MisplacedId[]> {
  const { values, bind } = parameters();
  const factsParameter = bind(JSON.stringify(facts));
  const wrong = Object.entries(buildWrongIdConditions(visibility, bind)).map(
    ([id, conditions]) => `('${id}', ${conditions.map((condition) => `(${condition})`).join(' or ')})`,
  );
  return db.query<MisplacedId>(
    `select fact.place::int - 1 as place, wrong.id
     from rows from (
       jsonb_to_recordset(${factsParameter}::jsonb)
         as (node_id text, node_instance_id text, allocation_id text, workflow_id text)
     ) with ordinality as fact(node_id, node_instance_id, allocation_id, workflow_id, place)
     left join allocations allocation on allocation.allocation_id = fact.allocation_id
     left join instances instance on instance.node_instance_id = fact.node_instance_id
     left join nodes node on node.node_id = fact.node_id
     left join operations operation on operation.workflow_id = fact.workflow_id
     ${visibility.kind === 'fleet' ? '' : heldByAllocation}
     cross join lateral (values ${wrong.join(', ')}) as wrong(id, is_wrong)
     where wrong.is_wrong
     order by 1`,
    values,
  );
}
