/**
 * Residue is a resource at a provider without a live owner. This file decides when a resource
 * counts as residue, and how often residue is verified.
 */
import { secondsBetween } from '../../base/clock.ts';

export const residueStatuses = ['open', 'gone', 'adopted'] as const;
export type ResidueStatus = (typeof residueStatuses)[number];

/** Left by a forced release, or found at the provider without an owner. */
export const residueReasons = ['force-release', 'orphan'] as const;
export type ResidueReason = (typeof residueReasons)[number];

export interface OrphanSettings {
  /** The interval between two passes, and between two checks of open residue. */
  every_seconds: number;
}

export const defaultOrphanSettings: OrphanSettings = { every_seconds: 60 };

/**
 * Whether two passes listed the resource without an owner. One pass is not enough: it may run just
 * before the row is committed, or just after the machine is destroyed. Two passes in quick
 * succession count as one.
 */
export const isOrphaned = (first_seen_at: Date, now: Date, { every_seconds }: OrphanSettings): boolean =>
  secondsBetween(first_seen_at, now) >= every_seconds / 2;
