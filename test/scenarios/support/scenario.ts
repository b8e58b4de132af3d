/**
 * A scenario and its counter-test. The same story is told twice: on the product, where it must hold, and on a server that is
 * composed without the rule (or with it broken), where it must fail for the reason that is given. A story that holds on both
 * tests nothing.
 */
import { describe, expect, it, vi } from 'vitest';
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { Deciders } from '../../../src/lifecycle/deciders.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { type Ledger, openLedger } from '../../support/ledger.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

/** Waits for a condition, patiently; and shortly where a counter-test says that it will not come. */
export type WaitFor = <T>(what: string, ask: () => T | undefined | Promise<T | undefined>) => Promise<NonNullable<T>>;

export interface World {
  server: TestServer;
  client: TestServer['client'];
  ledger: Ledger;
  waitFor: WaitFor;
  /** Nothing of the kind happens for so many seconds. */
  expectNever(what: string, seconds: number, ask: () => unknown | Promise<unknown>): Promise<void>;
}

export interface Counter {
  /** What is broken, in words: becomes the test's name. */
  broken: string;
  composition?: Composition;
  /** For what no composition reaches: breaks a module around the telling, and mends it again. */
  around?(telling: () => Promise<void>): Promise<void>;
  /** How the story fails then. */
  fails: RegExp;
  /** How long to wait for what will not come, where the story fails by that: longer than any budget of the step. */
  patience_seconds?: number;
}

type Settings = Pick<Composition, 'environment' | 'drivers'>;

export interface Scenario {
  name: string;
  args?: string[];
  /** What both tellings share, such as holds that last seconds or a provider; never a broken part. */
  settings?: Settings;
  story(world: World): Promise<void>;
  counters: Counter[];
}

/** How often to look for what should stay away, and once more at the end: what comes there stays, and each look costs a busy machine. */
const lookEveryMs = 250;

const patientSeconds = 90;
const shortSeconds = 5;

const patiently: WaitFor = (what, ask) => until(what, ask, { seconds: patientSeconds });

/**
 * Short is only the wait by whose end the story is expected to fail. Every other step takes as long as a busy machine needs, or
 * the story would fail there, for a reason that says nothing about the rule.
 */
const shortlyWhere =
  ({ fails, patience_seconds: seconds = shortSeconds }: Pick<Counter, 'fails' | 'patience_seconds'>): WaitFor =>
  (what, ask) =>
    fails.test(`waited ${seconds} s for ${what}`) ? until(what, ask, { seconds }) : patiently(what, ask);

async function runStory(
  story: Scenario['story'],
  args: string[],
  composition: Composition,
  waitFor: WaitFor,
): Promise<void> {
  const server = await inProcessServer({ args, composition });
  const ledger = await openLedger(server.database_url);
  try {
    await story({
      server,
      client: server.client,
      ledger,
      waitFor,
      async expectNever(what, forSeconds, ask) {
        const endMs = systemClock.monotonicMs() + forSeconds * 1000;
        for (;;) {
          if (await ask()) throw new Error(`${what}, and should not`);
          const leftMs = endMs - systemClock.monotonicMs();
          if (leftMs <= 0) return;
          await pause(systemClock, Math.min(lookEveryMs, leftMs));
        }
      },
    });
  } finally {
    await ledger.close();
    await server.stop();
  }
}

/** A server without one of its sweeps. */
export const withoutSweep = (sweep: string): Composition => ({
  sweeps: (registry) => {
    const rest = registry.filter((each) => each.name !== sweep);
    if (rest.length === registry.length) throw new Error(`there is no sweep ${sweep} to leave out`);
    return rest;
  },
});

/** A server that judges some things wrongly; `right` is how it judges otherwise. */
export const withDeciders = (wrongly: (right: Deciders) => Partial<Deciders>): Composition => ({
  environment: (built) => ({ ...built, decide: { ...built.decide, ...wrongly(built.decide) } }),
});

/**
 * For what no composition reaches: the test mocks a module so that it asks `wrong` first, and a counter-test puts there what
 * is wrong while its story is told.
 */
export const whileBroken =
  <Parts extends object>(wrong: Partial<Parts>, parts: Partial<Parts>): Counter['around'] =>
  async (telling) => {
    Object.assign(wrong, parts);
    try {
      await telling();
    } finally {
      for (const name of Object.keys(parts)) delete wrong[name as keyof Parts];
    }
  };

/** Both: the settings that every telling shares, then what this one leaves out or breaks. */
const composed = (settings: Settings, composition: Composition): Composition => ({
  ...(settings.drivers && { drivers: settings.drivers }),
  ...composition,
  environment: (built) => {
    const set = settings.environment?.(built) ?? built;
    return composition.environment?.(set) ?? set;
  },
});

/** What a broken rule does may come a moment after the story stopped looking for it, on a busy machine: then it is told again. */
const mostTellings = 3;

async function firstFailure(telling: () => Promise<void>, most: number): Promise<unknown> {
  for (let told = 0; told < most; told++) {
    try {
      await telling();
    } catch (error) {
      return error;
    }
  }
  return undefined;
}

const asItIs = (telling: () => Promise<void>) => telling();

/** A story with a stage of its own: told once on the product, and once for each way to break it. */
export function describeStory(
  name: string,
  telling: (composition: Composition, waitFor: WaitFor) => Promise<void>,
  counters: Counter[],
): void {
  // Of this file: a module is loaded once for many.
  vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });
  describe(name, () => {
    it('holds', () => telling({}, patiently));
    for (const counter of counters) {
      const { broken, composition = {}, around = asItIs, fails } = counter;
      it(`fails with ${broken}`, async () => {
        const told = () => around(() => telling(composition, shortlyWhere(counter)));
        const failure = await firstFailure(told, mostTellings);
        expect(() => {
          if (failure !== undefined) throw failure;
        }, 'the story must not hold without its rule').toThrow(fails);
      });
    }
  });
}

export function scenario({ name, args = [], settings = {}, story, counters }: Scenario): void {
  describeStory(
    name,
    (composition, waitFor) => runStory(story, args, composed(settings, composition), waitFor),
    counters,
  );
}
