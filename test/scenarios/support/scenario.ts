/**
 * A scenario and its counter-test. The same story is told twice: on the product, where it must hold, and on a server that is
 * composed without the rule (or with it broken), where it must fail for the reason that is given. A story that holds on both
 * tests nothing.
 */
import { describe, expect, it, vi } from 'vitest';
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { Composition } from '../../../src/main.ts';
import { type Ledger, openLedger } from '../../support/ledger.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

export interface World {
  server: TestServer;
  client: TestServer['client'];
  ledger: Ledger;
  /** Waits for a condition as long as this telling allows: patiently on the product, shortly where it will not come. */
  comes<T>(what: string, ask: () => T | undefined | Promise<T | undefined>): Promise<NonNullable<T>>;
  /** Nothing of the kind happens for so many seconds. */
  staysAway(what: string, seconds: number, ask: () => unknown | Promise<unknown>): Promise<void>;
}

export interface Counter {
  /** What is broken, in words: becomes the test's name. */
  broken: string;
  composition: Composition;
  /** How the story fails then. */
  fails: RegExp;
  /** How long to wait for what will not come: longer than any budget of the story. */
  patience_seconds?: number;
}

export interface Scenario {
  name: string;
  args?: string[];
  story(world: World): Promise<void>;
  counters: Counter[];
}

const patientSeconds = 90;
const shortSeconds = 5;

async function tell(
  story: Scenario['story'],
  args: string[],
  composition: Composition,
  seconds: number,
): Promise<void> {
  const server = await inProcessServer({ args, composition });
  const ledger = await openLedger(server.database_url);
  try {
    await story({
      server,
      client: server.client,
      ledger,
      comes: (what, ask) => until(what, ask, { seconds }),
      async staysAway(what, forSeconds, ask) {
        const endMs = systemClock.monotonicMs() + forSeconds * 1000;
        while (systemClock.monotonicMs() < endMs) {
          if (await ask()) throw new Error(`${what}, and should not`);
          await pause(systemClock, 50);
        }
      },
    });
  } finally {
    await ledger.close();
    await server.stop();
  }
}

/** A server without one of its sweeps. */
export const without = (sweep: string): Composition => ({
  sweeps: (registry) => {
    const rest = registry.filter((each) => each.name !== sweep);
    if (rest.length === registry.length) throw new Error(`there is no sweep ${sweep} to leave out`);
    return rest;
  },
});

export function scenario({ name, args = [], story, counters }: Scenario): void {
  describe(name, () => {
    it('holds', () => tell(story, args, {}, patientSeconds));
    for (const { broken, composition, fails, patience_seconds } of counters) {
      it(`fails with ${broken}`, async () => {
        const telling = tell(story, args, composition, patience_seconds ?? shortSeconds);
        await expect(telling, 'the story must not hold without its rule').rejects.toThrow(fails);
      });
    }
  });
}
