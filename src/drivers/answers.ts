/** Outcomes that several drivers share. */
import type { DriverFailure, Observation, ProofKind, ProveOutcome } from './driver.ts';

/**
 * The observation of a machine that cannot be inspected now. It may exist, so it counts as present.
 */
export const unseenObservation = (detail: string): Observation => ({
  ...{ state: 'unknown', present: true, ready: false },
  detail,
  unseen: true,
});

/** The refusal by a driver that can only prove absence; other proofs come from the agent. */
export const absenceOnlyFailure = (driver: string, kind: ProofKind): ProveOutcome => ({
  outcome: 'failed',
  owner_layer: 'control_plane',
  code: 'proof_not_offered',
  message: `the ${driver} driver can prove only absence, not "${kind}": only the agent can prove that a machine is clean`,
  retryable: false,
});

/** A failure that no retry can fix. */
export const permanentFailure = (
  code: string,
  message: string,
  { owner_layer = 'provider', phase }: Partial<Pick<DriverFailure, 'owner_layer' | 'phase'>> = {},
): DriverFailure => ({ outcome: 'failed', owner_layer, code, message, retryable: false, ...(phase && { phase }) });
