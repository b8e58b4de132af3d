/**
 * A scenario and its counter-tests. The same story runs on the product, where it must pass, and on
 * a server with a missing or broken rule, where it must fail for the given reason. A story that
 * passes on both servers proves nothing.
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

export interface CounterTest {
  /** Describes the broken part; becomes the test's name. */
  broken: string;
  composition?: Composition;
  /** Breaks a module while the story runs, for parts that `composition` cannot replace. */
  around?(run: () => Promise<void>): Promise<void>;
  /** The error with which the story must fail. */
  fails: RegExp;
  /** The timeout of the wait by which the story fails; longer than any budget of that step. */
  patience_seconds?: number;
}

type Settings = Pick<Composition, 'environment' | 'drivers'>;

export interface Scenario {
  name: string;
  args?: string[];
  /** Shared by all runs, such as short holds or a provider. Contains no broken part. */
  settings?: Settings;
  story(context: ScenarioContext): Promise<void>;
  counterTests: CounterTest[];
}

/** Long enough to spare a busy machine, and shorter than a forbidden state would last. */
const checkEveryMs = 250;

const patientSeconds = 480;
const shortSeconds = 5;

const waitPatiently: WaitFor = (what, check) => until(what, check, { seconds: patientSeconds });

/**
 * Shortens only the wait by which the story must fail. Every other step gets the time that a busy
 * machine needs; otherwise the story would fail there, for a reason unrelated to the rule.
 */
const waitBrieflyWhere =
  ({ fails, patience_seconds: seconds = shortSeconds }: Pick<CounterTest, 'fails' | 'patience_seconds'>): WaitFor =>
  (what, check) =>
    fails.test(`waited ${seconds} s for ${what}`) ? until(what, check, { seconds }) : waitPatiently(what, check);

const expectNever: ScenarioContext['expectNever'] = async (what, forSeconds, check) => {
  const endMs = systemClock.monotonicMs() + forSeconds * 1000;
  for (;;) {
    if (await check()) throw new Error(`${what}, and should not`);
    const leftMs = endMs - systemClock.monotonicMs();
    if (leftMs <= 0) return;
    await pause(systemClock, Math.min(checkEveryMs, leftMs));
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
    const remainingSweeps = registry.filter((each) => each.name !== sweep);
    if (remainingSweeps.length === registry.length) throw new Error(`there is no sweep ${sweep} to leave out`);
    return remainingSweeps;
  },
});

/** A server with some deciders replaced. `replace` gets the original ones. */
export const withDeciders = (replace: (original: Deciders) => Partial<Deciders>): Composition => ({
  environment: (built) => ({ ...built, decide: { ...built.decide, ...replace(built.decide) } }),
});

/**
 * Breaks parts that a composition cannot replace. The test mocks a module so that it uses the parts
 * in `brokenParts` first, and a counter-test fills `brokenParts` while its story runs.
 */
export const whileBroken =
  <Parts extends object>(brokenParts: Partial<Parts>, parts: Partial<Parts>): CounterTest['around'] =>
  async (run) => {
    Object.assign(brokenParts, parts);
    try {
      await run();
    } finally {
      for (const name of Object.keys(parts)) delete brokenParts[name as keyof Parts];
    }
  };

/** Applies the settings that all runs share, and then the parts that this run breaks. */
const compose = (settings: Settings, composition: Composition): Composition => ({
  ...(settings.drivers && { drivers: settings.drivers }),
  ...composition,
  environment: (built) => {
    const sharedEnvironment = settings.environment?.(built) ?? built;
    return composition.environment?.(sharedEnvironment) ?? sharedEnvironment;
  },
});

/** On a busy machine a broken rule may act just after the story ended, so the story is repeated. */
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

const runUnchanged = (run: () => Promise<void>) => run();

/** Runs a story that starts its own server: on the product and once for each counter-test. */
export function describeStory(
  name: string,
  run: (composition: Composition, waitFor: WaitFor) => Promise<void>,
  counterTests: CounterTest[],
): void {
  // Set for each test file, because this module is loaded once for many.
  vi.setConfig({ testTimeout: 1_200_000, hookTimeout: 240_000 });
  describe(name, () => {
    it('passes on the product', () => run({}, waitPatiently));
    for (const counterTest of counterTests) {
      const { broken, composition = {}, around = runUnchanged, fails } = counterTest;
      it(`fails with ${broken}`, async () => {
        const failure = await firstFailure(() => around(() => run(composition, waitBrieflyWhere(counterTest))));
        expect(() => {
          if (failure !== undefined) throw failure;
        }, 'the error of the story with the broken part').toThrow(fails);
      });
    }
  });
}

export function scenario({ name, args = [], settings = {}, story, counterTests }: Scenario): void {
  describeStory(
    name,
    (composition, waitFor) => runStory(story, args, compose(settings, composition), waitFor),
    counterTests,
  );
}
