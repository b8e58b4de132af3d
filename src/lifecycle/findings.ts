/** Findings: what each kind is about, when it is opened, and the numbers that decide. Pure; the API, CLI and docs read the same tables. */
import type { NodeStatus } from './states.ts';

export const findingKinds = ['drift', 'repeat-failure', 'boot-shift', 'identity', 'join-token', 'token'] as const;
export type FindingKind = (typeof findingKinds)[number];

export type FindingOwner = 'provider' | 'operator' | 'control_plane' | 'node';

/**
 * - seen: found once; it may still be a matter of moments
 * - open: found again, so somebody should know
 * - resolved: the sides agree again by themselves
 * - repaired: one side was brought to the other, by policy or by a person
 * - accepted: a person knows of it
 */
export const findingStatuses = ['seen', 'open', 'resolved', 'repaired', 'accepted'] as const;
export type FindingStatus = (typeof findingStatuses)[number];

/** `owner`: the layer that has to act, as in a problem. */
export const findingWhats = {
  machine_absent: { kind: 'drift', owner: 'provider', says: 'its provider shows nothing of the machine any more' },
  row_differs: { kind: 'drift', owner: 'operator', says: 'its row is not what its evidence says' },
  proven_gone: {
    kind: 'drift',
    owner: 'control_plane',
    says: 'its machine is proven gone, but the node is not retired',
  },
  node_provisions: { kind: 'repeat-failure', owner: 'operator', says: 'bringing it up fails again and again' },
  pool_provisions: {
    kind: 'repeat-failure',
    owner: 'operator',
    says: 'bringing machines of this spec up fails again and again',
  },
  boots_slower: { kind: 'boot-shift', owner: 'node', says: 'its boots have become slower' },
  name_contested: { kind: 'identity', owner: 'operator', says: 'another machine asked for its name and was refused' },
  join_token_expiring: { kind: 'join-token', owner: 'operator', says: 'machines beat with a join token that expires' },
  token_expiring: { kind: 'token', owner: 'operator', says: 'a token in use expires soon' },
} as const satisfies Record<string, { kind: FindingKind; owner: FindingOwner; says: string }>;
export type FindingWhat = keyof typeof findingWhats;

/** What a pool wants done about drift. A person may still decide otherwise. */
export const driftPolicies = ['report', 'repair', 'quarantine'] as const;
export type DriftPolicy = (typeof driftPolicies)[number];

/** In these a machine must be there, so that its absence is news. */
export const expectedStatuses = [
  'starting',
  'ready',
  'degraded',
  'offline',
  'quarantined',
] as const satisfies NodeStatus[];

export interface DriftSettings {
  /** From one pass to the next. */
  every_seconds: number;
  /** What is parked is verified again this often. */
  parked_seconds: number;
}
export const defaultDriftSettings: DriftSettings = { every_seconds: 10, parked_seconds: 3600 };

export interface RepeatFailureSettings {
  failures: number;
  window_seconds: number;
}
export const defaultRepeatFailureSettings: RepeatFailureSettings = { failures: 3, window_seconds: 86_400 };

const passesToOpen = 2;

/** Seen once, it may be a change under way; seen again, it is there to stay. */
export const isConfirmed = (passes: number): boolean => passes >= passesToOpen;
