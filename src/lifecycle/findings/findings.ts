/**
 * Findings: their kinds, texts and owners, when they open, and the settings. The API, CLI and docs
 * read the same tables.
 */
import type { NodeStatus } from '../model/states.ts';

export const findingKinds = ['drift', 'repeat-failure', 'boot-shift', 'identity', 'join-token', 'token'] as const;
export type FindingKind = (typeof findingKinds)[number];

export type FindingOwner = 'provider' | 'operator' | 'control_plane' | 'node';

/**
 * - seen: seen once; the difference may be transient
 * - open: confirmed
 * - resolved: the difference disappeared
 * - repaired: one side was changed to match the other, by policy or by a person
 * - accepted: a person decided that nothing needs to change
 */
export const findingStatuses = ['seen', 'open', 'resolved', 'repaired', 'accepted'] as const;
export type FindingStatus = (typeof findingStatuses)[number];

/** `owner`: the layer that has to act. `ways_out`: advice, in full sentences. */
export const findingCatalogue = {
  machine_absent: {
    kind: 'drift',
    says: 'its provider no longer shows the machine',
    owner: 'provider',
    ways_out: [
      'Repair the finding: Slipway tears the node down with proof.',
      'If the removal was intended, accept the finding.',
    ],
  },
  row_differs: {
    kind: 'drift',
    says: 'its row contradicts its evidence',
    owner: 'operator',
    ways_out: ['If the evidence is right, repair the finding.', 'If the row is right, accept it.'],
  },
  proven_gone: {
    kind: 'drift',
    says: 'its machine is proven gone, but the node is not retired',
    owner: 'control_plane',
    ways_out: ['Wait: Slipway retires the node.', 'If the provider shows the machine again, repair the finding.'],
  },
  node_provisions: {
    kind: 'repeat-failure',
    says: 'it repeatedly fails to come up',
    owner: 'operator',
    ways_out: ['Find the cause in its timeline and fix it.', 'Retire the node.'],
  },
  pool_provisions: {
    kind: 'repeat-failure',
    says: 'machines of this spec repeatedly fail to come up',
    owner: 'operator',
    ways_out: ['Change the pool, or the image and set-up of its machines.'],
  },
  boots_slower: {
    kind: 'boot-shift',
    says: 'its boots have become slower',
    owner: 'node',
    ways_out: ['Fix the stage that became slower.', 'Raise the budget.', 'Accept the new pace.'],
  },
  name_contested: {
    kind: 'identity',
    says: 'another machine tried to register under its name and was refused',
    owner: 'operator',
    ways_out: [
      'Stop one of the two, or give it a name of its own.',
      'If the refused one is right, run: slipway act NODE re-enroll --reason "…".',
      'If you know neither, revoke the join token.',
    ],
  },
  join_token_expiring: {
    kind: 'join-token',
    says: 'machines use a join token that expires soon',
    owner: 'operator',
    ways_out: ['Create another join token and restart the machines with it.'],
  },
  token_expiring: {
    kind: 'token',
    says: 'a token in use expires soon',
    owner: 'operator',
    ways_out: ['Create another token of the same name, role and scope, and use it.'],
  },
} as const satisfies Record<
  string,
  { kind: FindingKind; owner: FindingOwner; says: string; ways_out: readonly string[] }
>;
export type FindingWhat = keyof typeof findingCatalogue;

/** How a pool reacts to drift, unless a person decides otherwise. */
export const driftPolicies = ['report', 'repair', 'quarantine'] as const;
export type DriftPolicy = (typeof driftPolicies)[number];

/** In these statuses the provider must show the machine. */
export const expectedStatuses = [
  'starting',
  'ready',
  'degraded',
  'offline',
  'quarantined',
] as const satisfies NodeStatus[];

export interface DriftSettings {
  /** The interval between two passes. */
  every_seconds: number;
  /** How often parked machines are verified again. */
  parked_seconds: number;
}
export const defaultDriftSettings: DriftSettings = { every_seconds: 10, parked_seconds: 3600 };

export interface RepeatFailureSettings {
  failures: number;
  window_seconds: number;
}
export const defaultRepeatFailureSettings: RepeatFailureSettings = { failures: 3, window_seconds: 86_400 };

const passesToOpen = 2;

/** The first pass may see a change in progress, so a finding opens only in the second. */
export const isConfirmed = (passes: number): boolean => passes >= passesToOpen;
