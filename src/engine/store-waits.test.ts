/** Tests how a run behaves while the store is unavailable, and what it reports afterwards. */
import { describe, expect, test } from 'vitest';
import { pause } from '../base/clock.ts';
import { virtualClock } from '../base/virtual-clock.ts';
import type { EngineListener, Json, OperationDefinition, OperationRun } from './engine.ts';
import { silentLog } from './engine-log.ts';
import { executeRun } from './execute-run.ts';
import type { RunJournal } from './run-journal.ts';

class StoreDown extends Error {}

const run = { workflow_id: 'wf_1', attempt: 1, kind: 'test', revision: 1, params: null } as unknown as OperationRun;

/** With `outageMs`, the outage begins with the run. */
function scene(definition: Pick<OperationDefinition, 'run'>, outageMs?: number) {
  const clock = virtualClock();
  const facts: Json[] = [];
  const fromMs = outageMs === undefined ? Number.POSITIVE_INFINITY : clock.monotonicMs();
  const outage = { fromMs, toMs: fromMs + (outageMs ?? 0) };
  const isDown = () => clock.monotonicMs() >= outage.fromMs && clock.monotonicMs() < outage.toMs;
  const write = async () => {
    if (isDown()) throw new StoreDown('the store is unavailable');
  };
  const listener: EngineListener = {
    executing: write,
    stepStarted: async () => {},
    stepEnded: async (_, step, { status, tries }) => void facts.push({ step, status, tries }),
    emitted: async () => {},
    waitedForStore: async (_, waited) => void facts.push({ waited }),
    ended: async (_, { status }) => {
      await write();
      facts.push({ ended: status });
    },
  };
  const journal: RunJournal = {
    record: (_, effect) => effect(),
    receive: async () => false,
    wasCancelSent: async () => false,
    stopSignal: new AbortController().signal,
    divergence: new Promise(() => {}),
  };
  const store = {
    isUnavailable: (error: unknown) => error instanceof StoreDown,
    unavailableMs: () => Math.max(0, Math.min(clock.monotonicMs(), outage.toMs) - outage.fromMs),
  };
  const operation = { kind: 'test', revision: 1, ...definition };
  const done = executeRun(operation, { run, journal, listener, clock, log: silentLog, random: () => 0, store });
  return { clock, facts, outage, write, done };
}

test('repeats the same try while the store is unavailable, and continues at once when it is back', async () => {
  const once = { tries: 1, base_seconds: 60, max_seconds: 60 };
  const parts: ReturnType<typeof scene> = scene({
    run: async (context) => {
      await context.step('launch', () => parts.write(), once);
      return null;
    },
  });
  const { clock, facts, outage } = parts;
  outage.fromMs = clock.monotonicMs();
  outage.toMs = outage.fromMs + 40_000;
  await clock.advance(39_000);
  expect(facts).toEqual([]);
  await clock.advance(2_000);
  await parts.done;
  expect(facts).toEqual([
    { step: 'launch', status: 'done', tries: 1 },
    { waited: { step: 'launch', seconds: 40 } },
    { ended: 'succeeded' },
  ]);
});

test('reports an outage with the step that had to wait', async () => {
  const parts: ReturnType<typeof scene> = scene({
    run: async (context) => {
      await context.step('first', async () => {
        parts.outage.fromMs = parts.clock.monotonicMs();
        parts.outage.toMs = parts.outage.fromMs + 40_000;
      });
      await context.step('second', () => parts.write());
      return null;
    },
  });
  await parts.clock.advance(41_000);
  await parts.done;
  expect(parts.facts).toEqual([
    { step: 'first', status: 'done', tries: 1 },
    { step: 'second', status: 'done', tries: 1 },
    { waited: { step: 'second', seconds: 40 } },
    { ended: 'succeeded' },
  ]);
});

describe('reports an outage during', () => {
  const outageMs = 40_000;
  const waitThroughOutage = async ({ clock, outage }: Pick<ReturnType<typeof scene>, 'clock' | 'outage'>) => {
    outage.fromMs = clock.monotonicMs();
    outage.toMs = outage.fromMs + outageMs;
    await pause(clock, outageMs);
  };

  test('the start of a run, before its first step', async () => {
    const definition: Pick<OperationDefinition, 'run'> = {
      run: (context) => context.step('first', async () => null),
    };
    const { clock, facts, done } = scene(definition, outageMs);
    await clock.advance(outageMs + 2_000);
    await done;
    expect(facts).toContainEqual({ waited: { step: 'first', seconds: 40 } });
  });

  test('a read between two steps', async () => {
    const parts: ReturnType<typeof scene> = scene({
      run: async (context) => {
        await context.step('first', async () => {});
        await waitThroughOutage(parts);
        await context.step('second', async () => {});
        return null;
      },
    });
    await parts.clock.advance(outageMs + 1_000);
    await parts.done;
    expect(parts.facts).toContainEqual({ waited: { step: 'second', seconds: 40 } });
  });
});

describe('a step with a single try', () => {
  const launchOnce = (work: (parts: ReturnType<typeof scene>) => Promise<void>) => {
    const parts: ReturnType<typeof scene> = scene({
      run: async (context) => {
        await context.step('launch', () => work(parts), { tries: 1, base_seconds: 60, max_seconds: 60 });
        return null;
      },
    });
    return parts;
  };
  const minute = 60_000;

  test('survives an outage of any length', async () => {
    const parts = launchOnce(({ write }) => write());
    parts.outage.fromMs = parts.clock.monotonicMs();
    parts.outage.toMs = parts.outage.fromMs + 30 * minute;
    await parts.clock.advance(31 * minute);
    await parts.done;
    expect(parts.facts).toContainEqual({ step: 'launch', status: 'done', tries: 1 });
  });

  test('is repeated if the store is unavailable at the end of long work', async () => {
    const parts = launchOnce(async ({ clock, outage, write }) => {
      await pause(clock, 15 * minute);
      if (outage.fromMs === Number.POSITIVE_INFINITY) {
        outage.fromMs = clock.monotonicMs();
        outage.toMs = outage.fromMs + 2_000;
      }
      await write();
    });
    await parts.clock.advance(40 * minute);
    await parts.done;
    expect(parts.facts).toContainEqual({ step: 'launch', status: 'done', tries: 1 });
  });

  test('fails if the store is available but refuses its statement for 10 minutes', async () => {
    const parts = launchOnce(async () => {
      throw new StoreDown('only this statement');
    });
    await parts.clock.advance(9 * minute);
    expect(parts.facts).toEqual([]);
    await parts.clock.advance(2 * minute);
    await parts.done;
    expect(parts.facts).toContainEqual({ step: 'launch', status: 'failed', tries: 1 });
  });
});
