/** Blame yourself first: when a verdict is held back, for how long, and at which pace it goes on. Pure. */

export interface BrakePolicy {
  /** More than this share of a phase turning negative within the window is a mass failure. */
  fraction: number;
  /** But never fewer than this, so that small pools are not braked to a standstill. */
  min_nodes: number;
}

export const defaultBrakePolicy: BrakePolicy = { fraction: 0.2, min_nodes: 5 };

/** The server's own numbers. */
export interface BrakeSettings {
  window_seconds: number;
  self_fault_seconds: number;
  mass_failure_seconds: number;
  /** Share of the pool that may be decided on in a minute once a hold is over. */
  resume_fraction: number;
}

export const defaultBrakeSettings: BrakeSettings = {
  window_seconds: 60,
  self_fault_seconds: 600,
  mass_failure_seconds: 3600,
  resume_fraction: 0.05,
};

export const isMassFailure = (negative: number, population: number, policy: BrakePolicy): boolean =>
  negative >= policy.min_nodes && negative > policy.fraction * population;

/** How many may be decided on in a minute after a hold. */
export const resumeRate = (population: number, settings: BrakeSettings): number =>
  Math.max(1, Math.floor(population * settings.resume_fraction));

export interface OpenHold {
  held_until: Date;
  resumed: boolean;
}

export interface PhaseCounts {
  /** Those that would turn negative now. */
  due: number;
  /** Those that did within the window. */
  recent: number;
  population: number;
}

export type BrakeDecision =
  | { allow: 'all' }
  /** None, until then. `opens`: this is where the hold begins. */
  | { allow: 'none'; held_until: Date; opens: boolean }
  /** So many now, and so many in every minute that follows. */
  | { allow: 'some'; now: number; per_minute: number };

/** What the brake lets through, for one pool or one zone. */
export function decideBrake(
  share: PhaseCounts,
  policy: BrakePolicy,
  settings: BrakeSettings,
  open: OpenHold | undefined,
  now: Date,
): BrakeDecision {
  if (open?.resumed) return { allow: 'all' };
  if (open && now < open.held_until) return { allow: 'none', held_until: open.held_until, opens: false };
  if (open) {
    const per_minute = resumeRate(share.population, settings);
    return { allow: 'some', now: Math.max(0, per_minute - share.recent), per_minute };
  }
  if (!isMassFailure(share.due + share.recent, share.population, policy)) return { allow: 'all' };
  return {
    allow: 'none',
    held_until: new Date(now.getTime() + settings.mass_failure_seconds * 1000),
    opens: true,
  };
}

/** When the one at this place of the queue has its turn, so that every hold names its end. */
export const resumesAt = (place: number, per_minute: number, now: Date): Date =>
  new Date(now.getTime() + Math.ceil((place + 1) / per_minute) * 60_000);

/** Until when everything has been heard, for liveness: the slowest replica's word, but not longer than a self-fault may hold. */
export const heardThrough = (slowest: Date | null, settings: BrakeSettings, now: Date): Date => {
  const limit = now.getTime() - settings.self_fault_seconds * 1000;
  return new Date(Math.max(limit, slowest?.getTime() ?? 0));
};
