/** What may be done with an allocation, and in which of its statuses. */
import type { Allocation } from '../../../src/contract/allocation.ts';
import type { AllocationStatus } from '../../../src/lifecycle/states.ts';
import { release, retryAllocation } from '../api/allocations.ts';
import type { Action } from './ActionDialog.tsx';

const nameOf = (allocation: Allocation) => allocation.name ?? allocation.allocation_id;

const releasable: ReadonlySet<AllocationStatus> = new Set([
  'requested',
  'provisioning',
  'active',
  'failed',
  'release_failed',
]);

export const canRelease = ({ status }: Allocation): boolean => releasable.has(status);
export const canRetry = ({ status }: Allocation): boolean => status === 'failed';

/** Before it is active, giving it back is a cancel that is verified. */
const notYetActive: ReadonlySet<AllocationStatus> = new Set(['requested', 'provisioning']);

export const releaseWord = ({ status }: Allocation): string =>
  status === 'release_failed' ? 'Retry release' : notYetActive.has(status) ? 'Cancel' : 'Release';

export const releaseAction = (allocation: Allocation): Action => ({
  title: `${releaseWord(allocation)} ${nameOf(allocation)}?`,
  says: notYetActive.has(allocation.status)
    ? 'What has begun is aborted and taken down, and it is proven that nothing is left. The machine can no longer register.'
    : 'The machine is fenced, its last evidence is saved, it is stopped and cleaned, and it is proven gone. Whatever runs on it ends. This cannot be undone.',
  button: releaseWord(allocation),
  destructive: true,
  done: `Releasing ${nameOf(allocation)}`,
  run: (reason, key) => release(allocation.allocation_id, reason, key),
});

export const retryAction = (allocation: Allocation): Action => ({
  title: `Retry ${nameOf(allocation)}?`,
  says: 'The failed instance is fenced, destroyed and proven absent; then a new one is brought up. The rescue window of the old one ends at once.',
  button: 'Retry',
  done: `Trying ${nameOf(allocation)} again`,
  run: (reason, key) => retryAllocation(allocation.allocation_id, reason, key),
});
