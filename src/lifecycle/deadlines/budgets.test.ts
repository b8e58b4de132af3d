import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { BudgetPhase } from '../model/states.ts';
import {
  type BudgetQuestion,
  type BudgetSettings,
  type BudgetSource,
  defaultBudgets,
  defaultRuntimeClasses,
  resolveBudget,
} from './budgets.ts';

const phases: BudgetPhase[] = ['queue', 'provision', 'start', 'offline', 'drain', 'release', 'rescue', 'clean'];
const phasesWithSetting = ['queue', 'provision', 'start', 'offline', 'drain', 'release', 'rescue'] as const;

const seconds = fc.double({ min: 0.1, max: 1e6, noNaN: true });
const settings: fc.Arbitrary<BudgetSettings> = fc.record(
  {
    ...Object.fromEntries(phasesWithSetting.map((phase) => [`${phase}_seconds`, seconds])),
    ceiling_seconds: seconds,
  },
  { requiredKeys: [] },
);
const questions: fc.Arbitrary<BudgetQuestion> = fc.record(
  {
    phase: fc.constantFrom(...phases),
    pool: settings,
    runtime_class: settings,
    server: settings,
    requested_seconds: fc.option(seconds),
    learned_seconds: fc.option(seconds),
    external: fc.boolean(),
  },
  { requiredKeys: ['phase', 'pool'] },
);

/** Cleaning has no setting of its own; it uses the release budget. */
const keyOf = (phase: BudgetPhase) => `${phase === 'clean' ? 'release' : phase}_seconds` as const;

test('uses the first of allocation, learned, pool, class, server and default', () => {
  fc.assert(
    fc.property(questions, (question) => {
      const { phase, pool, runtime_class, server, requested_seconds, learned_seconds } = question;
      const provision = phase === 'provision';
      const ceiling = pool.ceiling_seconds ?? runtime_class?.ceiling_seconds ?? Number.POSITIVE_INFINITY;
      const requested =
        provision && typeof requested_seconds === 'number' ? Math.min(requested_seconds, ceiling) : undefined;
      const levels: [BudgetSource, number | undefined][] = [
        ['allocation', requested],
        ['learned', provision ? (learned_seconds ?? undefined) : undefined],
        ['pool', pool[keyOf(phase)]],
        ['class', runtime_class?.[keyOf(phase)]],
        ['default', server?.[keyOf(phase)]],
      ];
      const budget = resolveBudget(question);
      const [source, seconds] = levels.find(([, each]) => each !== undefined) ?? ['default', budget.seconds];
      expect(budget).toEqual({ seconds, source });
      expect(budget.seconds).toBeGreaterThan(0);
    }),
    { numRuns: 1000 },
  );
});

test.for(['pool', 'runtime_class'] as const)('caps the requested budget at the ceiling of its %s', (level) => {
  const question = { phase: 'provision', pool: {}, [level]: { ceiling_seconds: 900 } } as const;
  expect(resolveBudget({ ...question, requested_seconds: 1000 })).toEqual({ seconds: 900, source: 'allocation' });
  expect(resolveBudget({ ...question, requested_seconds: 60 })).toEqual({ seconds: 60, source: 'allocation' });
});

test("prefers the pool's ceiling over that of its class", () => {
  const ceilings = { pool: { ceiling_seconds: 900 }, runtime_class: { ceiling_seconds: 100 } };
  expect(resolveBudget({ phase: 'provision', ...ceilings, requested_seconds: 1000 }).seconds).toBe(900);
});

test('applies a learned budget to provisioning, and half of it to the rescue window', () => {
  for (const phase of phases) {
    const learned = resolveBudget({ phase, pool: {}, learned_seconds: 1000 });
    if (phase === 'provision') expect(learned).toEqual({ seconds: 1000, source: 'learned' });
    else if (phase === 'rescue') expect(learned).toEqual({ seconds: 500, source: 'default' });
    else expect(learned).toEqual(resolveBudget({ phase, pool: {} }));
  }
});

test('has the documented defaults', () => {
  const defaults = Object.fromEntries(phases.map((phase) => [phase, resolveBudget({ phase, pool: {} }).seconds]));
  expect(defaults).toEqual({
    queue: 3600,
    provision: 720,
    start: 120,
    offline: 3600,
    drain: 900,
    release: 900,
    clean: 900,
    rescue: 360,
  });
  expect(defaultBudgets.provision).toBe(720);
  for (const name of ['hermes', 'aks']) {
    const runtime_class = defaultRuntimeClasses[name];
    expect(resolveBudget({ phase: 'provision', pool: {}, runtime_class })).toEqual({ seconds: 1800, source: 'class' });
  }
});

test('sets the rescue window to half of the budget, all of it if progress-aware, at least a minute, and a week for external machines', () => {
  fc.assert(
    fc.property(seconds, (provision_seconds) => {
      const pool = { provision_seconds };
      expect(resolveBudget({ phase: 'rescue', pool })).toEqual({
        seconds: Math.max(60, provision_seconds / 2),
        source: 'default',
      });
      expect(resolveBudget({ phase: 'rescue', pool: { ...pool, progress_aware: true } }).seconds).toBe(
        Math.max(60, provision_seconds),
      );
      expect(resolveBudget({ phase: 'rescue', pool, external: true })).toEqual({
        seconds: 7 * 24 * 3600,
        source: 'default',
      });
    }),
  );
});

test('uses a configured number unchanged', () => {
  expect(resolveBudget({ phase: 'rescue', pool: { rescue_seconds: 0.5 } })).toEqual({ seconds: 0.5, source: 'pool' });
  expect(resolveBudget({ phase: 'rescue', pool: { rescue_seconds: 0 } }).seconds).toBe(0);
});

test('lets an allocation request only its provision budget', () => {
  for (const phase of phases.filter((each) => each !== 'provision' && each !== 'rescue'))
    expect(resolveBudget({ phase, pool: {}, requested_seconds: 5 }).source).toBe('default');
  expect(resolveBudget({ phase: 'rescue', pool: {}, requested_seconds: 1000 }).seconds).toBe(500);
});
