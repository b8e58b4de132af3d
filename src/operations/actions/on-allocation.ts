/**
 * What is done about a node by way of its allocation. These lock the allocation's operation first, as every operation's own step
 * does, and so must not hold the node.
 */
import type { NodeActionName } from '../../lifecycle/actions.ts';
import type { NodeStatus } from '../../lifecycle/states.ts';
import type { Asker, Touched } from '../asker.ts';
import { requestForceRelease } from '../request-force-release.ts';
import { requestReleaseRetry } from '../request-release.ts';
import { requestRetry } from '../requests.ts';
import type { OperationServices } from '../services.ts';

export interface ByAllocation {
  leads_to: NodeStatus;
  says: string;
  act(services: OperationServices, allocation_id: string, asker: Asker): Promise<Touched>;
}

export const byAllocation: Partial<Record<NodeActionName, ByAllocation>> = {
  retry: {
    leads_to: 'provisioning',
    says: 'what is left of it is taken down, and a new instance is brought up for its allocation',
    act: requestRetry,
  },
  'retry-release': {
    leads_to: 'cleaning',
    says: 'the release of its allocation is tried again, now',
    act: requestReleaseRetry,
  },
  'force-release': {
    leads_to: 'quarantined',
    says: 'a proof is asked for once more: with one it ends clean; without one its allocation is released, what may remain goes on the residue ledger, and it is quarantined',
    act: requestForceRelease,
  },
};
