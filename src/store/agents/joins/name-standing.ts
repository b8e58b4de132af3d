/** Reads the state of a name that a foreign protocol's client wants to register. */
import type { AllocationId, NodeId, NodeInstanceId } from '../../../base/ids.ts';
import type { Protocol } from '../../../contract/compat/protocol.ts';
import type { ClientProcess } from '../../../lifecycle/joins/duplicates.ts';
import type { NodeStatus } from '../../../lifecycle/model/states.ts';
import type { Queryable } from '../../pg/database.ts';
import { holderOf } from '../../rows/allocations.ts';

export interface NameStanding {
  node_id: NodeId;
  node_instance_id: NodeInstanceId | null;
  pool: string;
  name: string;
  endpoint: string | null;
  status: NodeStatus;
  allocation_id: AllocationId | null;
  /** The protocol of the last registered instance; null for our own agents, or if there is none. */
  protocol: Protocol | null;
  /** False while the current instance has not registered, as after an operator's re-enrolment. */
  is_registered: boolean;
  client_instance: string | null;
  /** Null until a second process has had the name. */
  client_processes: ClientProcess[] | null;
  verdict_rule: string | null;
  last_seen_at: Date | null;
  stale_seconds: number | null;
}

export async function readNameStanding(
  db: Queryable,
  { pool, name }: { pool: string; name: string },
): Promise<NameStanding | undefined> {
  const [row] = await db.query<NameStanding>(
    `select
       node.node_id,
       node.node_instance_id,
       node.pool,
       node.name,
       node.endpoint,
       node.status,
       ${holderOf('node.node_id')} as allocation_id,
       (select former.door
        from instances former
        where former.node_id = node.node_id
          and former.registered_at is not null
        order by former.created_at desc
        limit 1) as protocol,
       coalesce(current.registered_at is not null, false) as is_registered,
       current.client_instance,
       current.client_processes,
       node.verdict ->> 'rule' as verdict_rule,
       beat.last_seen_at,
       beat.stale_seconds
     from nodes node
     left join instances current on current.node_instance_id = node.node_instance_id
     left join heartbeats beat on beat.node_instance_id = node.node_instance_id
     where node.pool = $1
       and node.name = $2
       and node.status <> 'retired'`,
    [pool, name],
    { prepared: true },
  );
  return row;
}
