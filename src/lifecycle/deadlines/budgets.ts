/**
 * Resolves how long each phase may last, and which setting the budget comes from. A transition
 * stores the deadline; `isDue` in store/supervision/past-deadline.ts compares it with the clock.
 */
import type { BudgetPhase } from '../model/states.ts';

export type BudgetSource = 'allocation' | 'learned' | 'pool' | 'class' | 'default';

export interface Budget {
  seconds: number;
  source: BudgetSource;
}

/** The budgets in a pool document or a runtime class. */
export interface BudgetSettings {
  queue_seconds?: number;
  provision_seconds?: number;
  start_seconds?: number;
  offline_seconds?: number;
  drain_seconds?: number;
  release_seconds?: number;
  rescue_seconds?: number;
  silence_seconds?: number;
  ceiling_seconds?: number;
  progress_aware?: boolean;
}

/**
 * Why 720 s to provision: a measured healthy cold boot took 423 s, slow ones more than 600 s, and
 * stuck machines still did nothing after 900 s.
 */
export const defaultBudgets = {
  queue: 3600,
  provision: 720,
  start: 120,
  offline: 3600,
  drain: 900,
  release: 900,
  clean: 900,
} as const satisfies Record<Exclude<BudgetPhase, 'rescue'>, number>;

/** The defaults as a settings file writes them: the cleaning has the budget of the release. */
export const defaultBudgetSettings = {
  queue_seconds: defaultBudgets.queue,
  provision_seconds: defaultBudgets.provision,
  start_seconds: defaultBudgets.start,
  offline_seconds: defaultBudgets.offline,
  drain_seconds: defaultBudgets.drain,
  release_seconds: defaultBudgets.release,
} as const satisfies BudgetSettings;

export const defaultRuntimeClasses: Record<string, BudgetSettings> = {
  hermes: { provision_seconds: 1800 },
  aks: { provision_seconds: 1800 },
};

const rescueFloorSeconds = 60;
const externalRescueSeconds = 7 * 24 * 3600;

/**
 * The default rescue window of machines that we launch. A progress-aware pool fails silent boots
 * early, so its window is the whole budget. With half of the budget, a machine that fell silent
 * after progress would be destroyed earlier than one that made no progress
 * (docs/explanation/learned-budgets.md).
 */
export const defaultRescueSeconds = (provision_seconds: number, progress_aware = false): number =>
  Math.max(rescueFloorSeconds, progress_aware ? provision_seconds : provision_seconds / 2);

export interface BudgetQuestion {
  phase: BudgetPhase;
  pool: BudgetSettings;
  runtime_class?: BudgetSettings;
  /** The server's own defaults. */
  server?: BudgetSettings | undefined;
  /** The provision budget that the allocation requests; the ceiling of pool or class caps it. */
  requested_seconds?: number | null;
  /** Learned from the pool's boots, if its policy is `learned` and enough are recorded. */
  learned_seconds?: number | null;
  external?: boolean;
}

const settingOf = (settings: BudgetSettings | undefined, phase: BudgetPhase): number | undefined =>
  phase === 'clean' ? settings?.release_seconds : settings?.[`${phase}_seconds`];

export function resolveBudget(question: BudgetQuestion): Budget {
  const { phase, pool, runtime_class, requested_seconds } = question;
  if (phase === 'provision' && typeof requested_seconds === 'number') {
    const ceiling = pool.ceiling_seconds ?? runtime_class?.ceiling_seconds ?? Number.POSITIVE_INFINITY;
    return { seconds: Math.min(requested_seconds, ceiling), source: 'allocation' };
  }
  if (phase === 'provision' && typeof question.learned_seconds === 'number')
    return { seconds: question.learned_seconds, source: 'learned' };
  const fromPool = settingOf(pool, phase);
  if (fromPool !== undefined) return { seconds: fromPool, source: 'pool' };
  const fromClass = settingOf(runtime_class, phase);
  if (fromClass !== undefined) return { seconds: fromClass, source: 'class' };
  const fromServer = settingOf(question.server, phase);
  if (fromServer !== undefined) return { seconds: fromServer, source: 'default' };
  if (phase !== 'rescue') return { seconds: defaultBudgets[phase], source: 'default' };
  if (question.external) return { seconds: externalRescueSeconds, source: 'default' };
  const provision = resolveBudget({ ...question, phase: 'provision' });
  return { seconds: defaultRescueSeconds(provision.seconds, question.pool.progress_aware), source: 'default' };
}
