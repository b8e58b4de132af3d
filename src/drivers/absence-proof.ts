/**
 * The answer of drivers that can only prove absence; only the agent can state that a machine is
 * clean.
 */
import type { ProofKind, ProveOutcome } from './driver.ts';

export const onlyProvesAbsence = (driver: string, kind: ProofKind): ProveOutcome => ({
  outcome: 'failed',
  owner_layer: 'control_plane',
  code: 'proof_not_offered',
  message: `the ${driver} driver proves absence, not "${kind}": what is clean, the agent states itself`,
  retryable: false,
});
