/** Answers that several drivers share. */
import type { DriverFailure, Observation, ProofKind, ProveOutcome } from './driver.ts';

/** The observation of a machine that cannot be seen now; it may or may not exist. */
export const unseen = (detail: string): Observation => ({
  ...{ state: 'unknown', present: true, ready: false },
  detail,
  unseen: true,
});

/** For drivers that can only prove absence: only the agent can state that a machine is clean. */
export const onlyProvesAbsence = (driver: string, kind: ProofKind): ProveOutcome => ({
  outcome: 'failed',
  owner_layer: 'control_plane',
  code: 'proof_not_offered',
  message: `the ${driver} driver proves absence, not "${kind}": what is clean, the agent states itself`,
  retryable: false,
});

/** A failure that no retry can fix, returned before anything is created. */
export const permanentFailure = (
  code: string,
  message: string,
  { owner_layer = 'provider', phase }: Partial<Pick<DriverFailure, 'owner_layer' | 'phase'>> = {},
): DriverFailure => ({ outcome: 'failed', owner_layer, code, message, retryable: false, ...(phase && { phase }) });
