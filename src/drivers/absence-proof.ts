/** Drivers prove that nothing is there any more; that something is clean only its agent can state. */
import type { ProofKind, ProveOutcome } from './driver.ts';

export const provesAbsenceOnly = (driver: string, kind: ProofKind): ProveOutcome => ({
  outcome: 'failed',
  owner_layer: 'control_plane',
  code: 'proof_not_offered',
  message: `the ${driver} driver proves absence, not "${kind}": what is clean, the agent states itself`,
  retryable: false,
});
