/** Checks a registration by join token under a name that a node already has. */
import { ApiProblem } from '../../../contract/errors/errors.ts';
import type { NodeStatus } from '../../../lifecycle/model/states.ts';
import type { Transaction } from '../../pg/database.ts';
import { findHolders } from '../../rows/allocations.ts';
import type { NodeRow } from '../../rows/nodes.ts';
import { type JoinTokenRow, spendJoinToken } from '../../rows/tokens.ts';
import type { InstanceRow } from '../instances.ts';
import type { JoinRequest } from '../join-newcomers.ts';
import type { JudgedName } from '../registration-types.ts';
import { NameContested } from './contested-names.ts';
import type { KeyProofResult } from './key-proof.ts';
import { spentProblem } from './token-validity.ts';

const nameHoldingStatuses: readonly NodeStatus[] = [
  'starting',
  'ready',
  'degraded',
  'draining',
  'cleaning',
  'quarantined',
];

/** Returns whether a live instance holds the name of a node with this status. */
export const isNameHeld = (status: NodeStatus): boolean => nameHoldingStatuses.includes(status);

const proofReasons: Record<Extract<KeyProofResult, { proven: false }>['because'], string> = {
  missing: 'the registration has no key proof',
  unaccepted_key: 'the key replaced another one, and no operator has accepted it yet',
  wrong_key: 'the registration is not signed with the key of that machine',
  stale: 'the key proof was signed too long ago or ahead of time; correct the clock of the machine',
  replayed: 'the key proof was used before',
};

/** Builds the refusal of an agent that did not prove that it is the machine of that name. */
export function unprovenProblem(
  node: NodeRow,
  join: JoinTokenRow,
  request: JoinRequest,
  instance: InstanceRow | undefined,
  proof: KeyProofResult,
): ApiProblem {
  const isHeld = isNameHeld(node.status);
  const code = isHeld ? 'name_taken' : 'identity_unproven';
  const why = proof.proven ? '' : `; ${proofReasons[proof.because]}`;
  const detail = `${node.name} is ${node.status} in pool ${node.pool}${why}.`;
  // An agent whose first reply was lost sends the stored key now, and a proof with its next try. So
  // this is not recorded as a contest.
  const isRetry = request.agent_public_key && request.agent_public_key === instance?.agent_public_key;
  if (isRetry && !request.key_proof) return new ApiProblem(code, detail);
  return new NameContested(code, detail, {
    node,
    because: isHeld ? 'name_held' : 'key_unproven',
    protocol: null,
    endpoint: request.base_url ?? null,
    join_token_id: join.token_id,
  });
}

/**
 * Refuses the registration if the name's holder has changed since the caller judged it. The caller
 * judged outside this transaction. Here, the row lock on the node keeps the holder current.
 */
export async function requireUnchangedName(tx: Transaction, node: NodeRow, judged: JudgedName): Promise<void> {
  const allocation_id = (await findHolders(tx, [node.node_id])).get(node.node_id) ?? null;
  const isSame =
    node.node_instance_id === judged.node_instance_id &&
    node.endpoint === judged.endpoint &&
    allocation_id === judged.allocation_id;
  if (!isSame) throw new ApiProblem('name_taken', `${node.name} changed during the registration; register again.`);
}

/** Spends a use of the token unless the node has registered with it before. */
export async function spendUnlessKnown(
  tx: Transaction,
  { node_id }: Pick<NodeRow, 'node_id'>,
  join: Pick<JoinTokenRow, 'token_id' | 'pool'>,
): Promise<void> {
  const known = await tx.query(
    `select 1
     from instances
     where node_id = $1
       and (join_token_id = $2 or $2 = any(earlier_join_token_ids))
     limit 1`,
    [node_id, join.token_id],
  );
  if (known.length === 0 && !(await spendJoinToken(tx, join.token_id, 1))) throw spentProblem(join);
}
