/**
 * A scenario and its counter-tests. The same story runs on the product, where it must hold, and on
 * a server without the rule or with the rule broken, where it must fail for the given reason. A
 * story that holds on both tests nothing.
 */
import { describe, expect, it, vi } from 'vitest';
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { Deciders } from '../../../src/lifecycle/deciders.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { type DatabaseConnection, openDatabaseConnection } from '../../support/database-connection.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

/**
 * Waits for a condition: long enough for a busy machine, and only briefly where a counter-test
 * expects the wait to fail.
 */
export type WaitFor = <T>(what: string, check: () => T | undefined | Promise<T | undefined>) => Promise<NonNullable<T>>;

export interface ScenarioContext {
  server: TestServer;
  client: TestServer['client'];
  db: DatabaseConnection;
  waitFor: WaitFor;
  /** Fails if the check returns something within these seconds. */
  expectNever(what: string, seconds: number, check: () => unknown | Promise<unknown>): Promise<void>;
}

export interface Counter {
  /** Describes the broken part; becomes the test's name. */
  broken: string;
  composition?: Composition;
  /** For parts that no composition reaches: breaks a module while the story runs. */
  around?(run: () => Promise<void>): Promise<void>;
  /** The error with which the story must fail. */
  fails: RegExp;
  /** How long to wait where the story fails by a wait; longer than any budget of that step. */
  patience_seconds?: number;
}

type Settings = Pick<Composition, 'environment' | 'drivers'>;

export interface Scenario {
  name: string;
  args?: string[];
  /** Shared by all runs, such as short holds or a provider; never a broken part. */
  settings?: Settings;
  story(context: ScenarioContext): Promise<void>;
  counters: Counter[];
}

/** Rare enough for a busy machine; a forbidden state would last until the next look. */
const lookEveryMs = 250;

const patientSeconds = 90;
const shortSeconds = 5;

const waitPatiently: WaitFor = (what, check) => until(what, check, { seconds: patientSeconds });

/**
 * Shortens only the wait by which the story must fail. Every other step gets the time that a busy
 * machine needs; otherwise the story would fail there, for a reason unrelated to the rule.
 */
const waitBrieflyWhere =
  ({ fails, patience_seconds: seconds = shortSeconds }: Pick<Counter, 'fails' | 'patience_seconds'>): WaitFor =>
  (what, check) =>
    fails.test(`waited ${seconds} s for ${what}`) ? until(what, check, { seconds }) : waitPatiently(what, check);

const expectNever: ScenarioContext['expectNever'] = async (what, forSeconds, check) => {
  const endMs = systemClock.monotonicMs() + forSeconds * 1000;
  for (;;) {
    if (await check()) throw new Error(`${what}, and should not`);
    const leftMs = endMs - systemClock.monotonicMs();
    if (leftMs <= 0) return;
    await pause(systemClock, Math.min(lookEveryMs, leftMs));
  }
};

async function runStory(
  story: Scenario['story'],
  args: string[],
  composition: Composition,
  waitFor: WaitFor,
): Promise<void> {
  const server = await inProcessServer({ args, composition });
  const db = await openDatabaseConnection(server.database_url);
  try {
    await story({ server, client: server.client, db, waitFor, expectNever });
  } finally {
    await db.close();
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

/** A server with some deciders replaced; `replace` gets the right ones. */
export const withDeciders = (replace: (right: Deciders) => Partial<Deciders>): Composition => ({
  environment: (built) => ({ ...built, decide: { ...built.decide, ...replace(built.decide) } }),
});

/**
 * For parts that no composition reaches: the test mocks a module that consults `wrong` first, and a
 * counter-test fills `wrong` while its story runs.
 */
export const whileBroken =
  <Parts extends object>(wrong: Partial<Parts>, parts: Partial<Parts>): Counter['around'] =>
  async (run) => {
    Object.assign(wrong, parts);
    try {
      await run();
    } finally {
      for (const name of Object.keys(parts)) delete wrong[name as keyof Parts];
    }
  };

/** The settings that all runs share, and then the parts that this run leaves out or breaks. */
const compose = (settings: Settings, composition: Composition): Composition => ({
  ...(settings.drivers && { drivers: settings.drivers }),
  ...composition,
  environment: (built) => {
    const set = settings.environment?.(built) ?? built;
    return composition.environment?.(set) ?? set;
  },
});

/** On a busy machine a broken rule may act just after the story ended; then it runs again. */
const maxRuns = 3;

async function firstFailure(run: () => Promise<void>): Promise<unknown> {
  for (let runs = 0; runs < maxRuns; runs++) {
    try {
      await run();
    } catch (error) {
      return error;
    }
  }
  return undefined;
}

const unchanged = (run: () => Promise<void>) => run();

/** A story that sets up its own server: runs once on the product and once for each counter-test. */
export function describeStory(
  name: string,
  run: (composition: Composition, waitFor: WaitFor) => Promise<void>,
  counters: Counter[],
): void {
  // Set for each test file, because this module is loaded once for many.
  vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });
  describe(name, () => {
    it('holds', () => run({}, waitPatiently));
    for (const counter of counters) {
      const { broken, composition = {}, around = unchanged, fails } = counter;
      it(`fails with ${broken}`, async () => {
        const failure = await firstFailure(() => around(() => run(composition, waitBrieflyWhere(counter))));
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
    (composition, waitFor) => runStory(story, args, compose(settings, composition), waitFor),
    counters,
  );
}
