/** What is upstream without a live owner: when it counts as residue, and how often it is looked at. Pure. */
import { secondsBetween } from '../../base/clock.ts';

export const residueStatuses = ['open', 'gone', 'adopted'] as const;
export type ResidueStatus = (typeof residueStatuses)[number];

/** Left behind by a release that was forced, or found upstream without anybody who owns it. */
export const residueReasons = ['force-release', 'orphan'] as const;
export type ResidueReason = (typeof residueReasons)[number];

export interface OrphanSettings {
  /** Between two passes; what is open is verified as often. */
  every_seconds: number;
}

export const defaultOrphanSettings: OrphanSettings = { every_seconds: 60 };

/**
 * Seen without an owner in two passes. Once proves nothing: a machine may be listed a moment before its row is committed, or a
 * moment after it was destroyed; and two looks that follow each other at once are one look.
 */
export const isOrphaned = (first_seen_at: Date, now: Date, { every_seconds }: OrphanSettings): boolean =>
  secondsBetween(first_seen_at, now) >= every_seconds / 2;
