/**
 * The brake on mass failures: when verdicts are held, for how long, and how fast they resume. Many
 * failures at once point to our own fault, so the control plane suspects itself first.
 */

export interface BrakePolicy {
  /** A mass failure is more than this share of a phase turning negative within the window. */
  fraction: number;
  /** And at least this many nodes, so that small pools are not blocked. */
  min_nodes: number;
}

export const defaultBrakePolicy: BrakePolicy = { fraction: 0.2, min_nodes: 5 };

/** Settings of the server. */
export interface BrakeSettings {
  window_seconds: number;
  self_fault_seconds: number;
  mass_failure_seconds: number;
  /** The share of the pool that may get verdicts per minute after a hold. */
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
  /** None until `held_until`. `opens`: this decision starts the hold. */
  | { allow: 'none'; held_until: Date; opens: boolean }
  /** `now` at once, then `per_minute`. */
  | { allow: 'some'; now: number; per_minute: number };

/** Decides for one pool or one zone. */
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

/** When the verdict at this position of the queue is due. Every hold names its end. */
export const resumesAt = (place: number, per_minute: number, now: Date): Date =>
  new Date(now.getTime() + Math.ceil((place + 1) / per_minute) * 60_000);

/**
 * The time up to which all received heartbeats are stored, for liveness: that of the slowest
 * replica, but no older than a self-fault may hold verdicts.
 */
export const heardThrough = (slowest: Date | null, settings: BrakeSettings, now: Date): Date => {
  const limit = now.getTime() - settings.self_fault_seconds * 1000;
  return new Date(Math.max(limit, slowest?.getTime() ?? 0));
};
