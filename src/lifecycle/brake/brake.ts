/**
 * The brake on mass failures: when verdicts are held, for how long, and how fast they resume. Many
 * failures at once point to our own fault, so the control plane suspects itself first.
 */

export interface BrakePolicy {
  /** A mass failure: more than this share of the nodes in a phase fails within the window. */
  fraction: number;
  /** A mass failure also needs at least this many nodes, so that small pools are not blocked. */
  min_nodes: number;
}

export const defaultBrakePolicy: BrakePolicy = { fraction: 0.2, min_nodes: 5 };

/** Settings of the server. */
export interface BrakeSettings {
  window_seconds: number;
  /** How long a fault of the control plane itself may hold verdicts. */
  self_fault_seconds: number;
  /** How long a mass failure may hold verdicts. */
  mass_failure_seconds: number;
  /** After a hold, the share of the counted nodes that may get verdicts per minute. */
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

/** Verdicts per minute after a hold. */
export const resumeRate = (population: number, settings: BrakeSettings): number =>
  Math.max(1, Math.floor(population * settings.resume_fraction));

export interface OpenHold {
  held_until: Date;
  resumed: boolean;
}

export interface PhaseCounts {
  /** Nodes that would turn negative now. */
  due: number;
  /** Nodes that turned negative within the window. */
  recent: number;
  population: number;
}

export type BrakeDecision =
  | { allow: 'all' }
  /** No verdict is written until `held_until`. `opens`: this decision starts the hold. */
  | { allow: 'none'; held_until: Date; opens: boolean }
  /** After a hold: `now` verdicts are written at once, then `per_minute`. */
  | { allow: 'some'; now: number; per_minute: number };

/** Decides for one pool or one zone. `hold`: the hold that is open there, if any. */
export function decideBrake(
  counts: PhaseCounts,
  policy: BrakePolicy,
  settings: BrakeSettings,
  hold: OpenHold | undefined,
  now: Date,
): BrakeDecision {
  if (hold?.resumed) return { allow: 'all' };
  if (hold && now < hold.held_until) return { allow: 'none', held_until: hold.held_until, opens: false };
  if (hold) {
    const per_minute = resumeRate(counts.population, settings);
    return { allow: 'some', now: Math.max(0, per_minute - counts.recent), per_minute };
  }
  if (!isMassFailure(counts.due + counts.recent, counts.population, policy)) return { allow: 'all' };
  return {
    allow: 'none',
    held_until: new Date(now.getTime() + settings.mass_failure_seconds * 1000),
    opens: true,
  };
}

/** When the verdict at this position of the queue is written, at `per_minute` verdicts a minute. */
export const resumeTime = (position: number, per_minute: number, now: Date): Date =>
  new Date(now.getTime() + Math.ceil((position + 1) / per_minute) * 60_000);

/**
 * The time up to which every heartbeat that a replica received is stored. It is the time of the
 * slowest replica, but at most `self_fault_seconds` ago: a hung replica must not hold verdicts
 * forever.
 */
export const storedThroughOf = (slowest: Date | null, settings: BrakeSettings, now: Date): Date => {
  const limit = now.getTime() - settings.self_fault_seconds * 1000;
  return new Date(Math.max(limit, slowest?.getTime() ?? 0));
};
