/** Stores the registration of a foreign protocol's client and the tokens that authenticate it. */
import type { NodeInstanceId } from '../../../base/ids.ts';
import type { Transaction } from '../../pg/database.ts';
import type { Arrival } from '../registration-types.ts';

/** Runs in the registration's transaction, so that a crash leaves no name without its client. */
export async function storeArrival(tx: Transaction, id: NodeInstanceId, arrival: Arrival | undefined): Promise<void> {
  if (!arrival) return;
  const { protocol, announced_interval_seconds, client_instance, join_token_id, client_processes } = arrival;
  await tx.query(
    `update instances
     set door = $2,
       announced_interval_seconds = $3,
       client_instance = $4,
       join_token_id = coalesce($5, join_token_id),
       client_processes = coalesce($6, client_processes)
     where node_instance_id = $1`,
    [
      id,
      protocol,
      announced_interval_seconds,
      client_instance,
      join_token_id,
      client_processes ? JSON.stringify(client_processes) : null,
    ],
  );
}

/**
 * Adds the instance's token to its list of earlier tokens if the token has limited uses. The
 * machine may still use that token after it registered with another one, even if the token is
 * spent.
 */
export async function addEarlierToken(tx: Transaction, id: NodeInstanceId, next_token_id: string): Promise<void> {
  await tx.query(
    `update instances
     set earlier_join_token_ids = array_append(earlier_join_token_ids, join_token_id)
     where node_instance_id = $1
       and join_token_id <> $2
       and not join_token_id = any(coalesce(earlier_join_token_ids, '{}'))
       and exists (
         select 1
         from join_tokens earlier
         where earlier.token_id = instances.join_token_id
           and earlier.max_uses is not null)`,
    [id, next_token_id],
  );
}
