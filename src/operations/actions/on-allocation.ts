/**
 * What is done about a node by way of its allocation. These lock the allocation's operation first, as every operation's own step
 * does, and so must not hold the node.
 */
import type { Node } from '../../contract/node.ts';
import type { NodeActionName } from '../../lifecycle/actions/actions.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';
import { lookForProof } from '../release/proof.ts';
import { reusesNodes } from '../release/release-policy.ts';
import { requestForceRelease } from '../release/request-force-release.ts';
import { requestReleaseRetry } from '../release/request-release.ts';
import { requestRetry, retryingPool } from '../requests.ts';
import type { Caller, Touched } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import { readSubject } from '../runtime/subject.ts';

/** Whoever only wants to know does not wait long for a driver that hangs, and no transaction lies idle meanwhile for longer than it may. */
const foretellWithinSeconds = 3;

export interface ByAllocation {
  /** What becomes of the node, and in words; refused where the deed would be. */
  predict(services: OperationServices, shown: Node): Promise<{ status: NodeStatus; says: string }>;
  act(services: OperationServices, allocation_id: string, caller: Caller): Promise<Touched>;
}

const forcedSays =
  'a proof is asked for once more: with one it is retired where its machine is gone, and used again where it is proven clean; without one its allocation is released, what may remain goes on the residue ledger, and it is quarantined';

/** Looks as the deed will, but asks no agent and cuts nothing off: that its agent may still prove it clean is in the words. */
async function endOfForced(services: OperationServices, { node_id }: Node): Promise<'retired' | 'quarantined'> {
  const subject = await readSubject(services, services.db, node_id, {
    workflow_id: null,
    correlation_id: null,
    allocation_id: null,
  });
  const { driver, pool } = subject;
  if (!driver.launches && reusesNodes(pool)) return 'quarantined';
  // One that is let go by ending its credential is proven by doing that.
  if (driver.final_proof === 'revoked') return 'retired';
  const { proof } = await lookForProof(services.clock, subject, foretellWithinSeconds);
  return proof ? 'retired' : 'quarantined';
}

/** Whatever keeps us from looking must not keep anybody from forcing: it is no proof, as it is none for the deed. */
async function foretellForced(services: OperationServices, shown: Node) {
  const status = await endOfForced(services, shown).catch((error: unknown) => {
    if (error instanceof StoreUnavailable) throw error;
    return 'quarantined' as const;
  });
  return { status, says: forcedSays };
}

export const byAllocation: Partial<Record<NodeActionName, ByAllocation>> = {
  retry: {
    async predict({ db }, { pool }) {
      await retryingPool(db, pool);
      const says = 'what is left of it is taken down, and a new instance is brought up for its allocation';
      return { status: 'provisioning', says };
    },
    act: requestRetry,
  },
  'retry-release': {
    predict: async () => ({ status: 'cleaning', says: 'the release of its allocation is tried again, now' }),
    act: requestReleaseRetry,
  },
  'force-release': {
    predict: foretellForced,
    act: requestForceRelease,
  },
};
