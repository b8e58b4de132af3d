/**
 * Residue: resources at a provider without a live owner. When they count, and how often they are
 * verified.
 */
import { secondsBetween } from '../../base/clock.ts';

export const residueStatuses = ['open', 'gone', 'adopted'] as const;
export type ResidueStatus = (typeof residueStatuses)[number];

/** Left by a forced release, or found at the provider without an owner. */
export const residueReasons = ['force-release', 'orphan'] as const;
export type ResidueReason = (typeof residueReasons)[number];

export interface OrphanSettings {
  /** Between two passes; open residue is verified as often. */
  every_seconds: number;
}

export const defaultOrphanSettings: OrphanSettings = { every_seconds: 60 };

/**
 * Listed without an owner in two passes. One is not enough: a listing may run just before the row
 * is committed or just after the machine is destroyed. Two in quick succession count as one.
 */
export const isOrphaned = (first_seen_at: Date, now: Date, { every_seconds }: OrphanSettings): boolean =>
  secondsBetween(first_seen_at, now) >= every_seconds / 2;
