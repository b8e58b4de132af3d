import { describe, expect, test } from 'vitest';
import type { WorkflowId } from '../base/ids.ts';
import { virtualClock } from '../base/virtual-clock.ts';
import type { EngineUnderTest } from './conformance/harness.ts';
import type { EngineListener, OperationDefinition, OperationRun, RunOutcome } from './engine.ts';
import { describeEngine } from './engine-conformance.ts';
import { createVirtualEngine, type VirtualEngine } from './virtual-engine.ts';
import { createVirtualStore, type Faults, SimulatedCrash } from './virtual-journal.ts';

/** A run that needs more timers than this is in an endless loop. */
const maxTimers = 10_000;

describeEngine({
  name: 'virtual time',
  unit_seconds: 60,
  slack_units: 1,
  async open(prepare, listener): Promise<EngineUnderTest> {
    const clock = virtualClock();
    const store = createVirtualStore();
    let engines = 0;
    const start = async () => {
      const engine = createVirtualEngine({ clock, listener, store, executor_id: `virtual-${++engines}` });
      prepare(engine);
      await engine.launch();
      return engine;
    };
    let engine = await start();
    return {
      get engine() {
        return engine;
      },
      nowMs: () => clock.nowMs(),
      pass: (seconds) => clock.advance(seconds * 1000),
      async until(what, condition) {
        await clock.advance(0);
        for (let timers = 0; !(await condition()); timers++) {
          if (timers === maxTimers || !(await clock.advanceToNext())) throw new Error(`timed out waiting for ${what}`);
        }
      },
      finished: async (workflow_id) => store.get(`${workflow_id}#1`)?.ended === true,
      async crash() {
        engine.crash();
        engine = await start();
        return engine.recover([`virtual-${engines - 1}`]);
      },
      close: () => engine.shutdown(),
    };
  },
});

const run: OperationRun = {
  workflow_id: 'op_1' as WorkflowId,
  attempt: 1,
  kind: 'probe-run',
  revision: 1,
  params: null,
};

const silentListener = (ended: EngineListener['ended']): EngineListener => ({
  executing: async () => {},
  stepStarted: async () => {},
  stepEnded: async () => {},
  emitted: async () => {},
  ended,
});

describe('faults', () => {
  const effects: string[] = [];
  const definition: OperationDefinition = {
    kind: 'probe-run',
    revision: 1,
    async run(context) {
      await context.step('create', async () => effects.push('create'));
      await context.step('enrol', async () => effects.push('enrol'));
      return null;
    },
  };

  async function runWith(faults: Faults): Promise<{ engine: VirtualEngine; outcomes: RunOutcome[] }> {
    effects.length = 0;
    const clock = virtualClock();
    const outcomes: RunOutcome[] = [];
    const listener = silentListener(async (_, outcome) => void outcomes.push(outcome));
    const engine = createVirtualEngine({ clock, listener, faults });
    engine.register(definition);
    await engine.launch();
    await engine.start(run);
    await clock.advance(0);
    expect(outcomes).toEqual([]);
    expect(await engine.recover(['virtual'])).toBe(1);
    await clock.advance(0);
    return { engine, outcomes };
  }

  const once = (where: 'before' | 'after', at: string): Faults => {
    let crashes = 0;
    return {
      [where]: (_: OperationRun, step: string) => {
        if (step === at && crashes++ === 0) throw new SimulatedCrash();
      },
    };
  };

  test('after a crash before an effect, the next execution runs the effect', async () => {
    const { outcomes } = await runWith(once('before', 'enrol'));
    expect(effects).toEqual(['create', 'enrol']);
    expect(outcomes).toEqual([{ status: 'succeeded', result: null }]);
  });

  test('a crash between an effect and its record repeats the effect', async () => {
    const { outcomes } = await runWith(once('after', 'enrol'));
    expect(effects).toEqual(['create', 'enrol', 'enrol']);
    expect(outcomes).toEqual([{ status: 'succeeded', result: null }]);
  });

  test('a crash between `ended` and its record repeats `ended`', async () => {
    effects.length = 0;
    const clock = virtualClock();
    const outcomes: RunOutcome[] = [];
    const listener = silentListener(async (_, outcome) => void outcomes.push(outcome));
    const engine = createVirtualEngine({ clock, listener, faults: once('after', 'engine:ended') });
    engine.register(definition);
    await engine.launch();
    await engine.start(run);
    await clock.advance(0);
    await engine.recover(['virtual']);
    await clock.advance(0);
    expect(outcomes).toHaveLength(2);
    expect(effects).toEqual(['create', 'enrol']);
  });
});

test('an execution whose run was taken over records nothing more', async () => {
  const clock = virtualClock();
  const store = createVirtualStore();
  const ended: string[] = [];
  const zombieStep = Promise.withResolvers<string>();
  const survivorStep = Promise.withResolvers<string>();
  const engineNamed = async (executor_id: string, step: Promise<string>) => {
    const listener = silentListener(async () => void ended.push(executor_id));
    const engine = createVirtualEngine({ clock, listener, store, executor_id });
    engine.register({ kind: 'probe-run', revision: 1, run: (context) => context.step('effect', () => step) });
    await engine.launch();
    return engine;
  };
  const zombie = await engineNamed('zombie', zombieStep.promise);
  const survivor = await engineNamed('survivor', survivorStep.promise);
  await zombie.start(run);
  expect(await survivor.recover(['zombie'])).toBe(1);
  zombieStep.resolve('too late');
  await clock.advance(3_600_000);
  expect(ended).toEqual([]);
  survivorStep.resolve('in time');
  await clock.advance(0);
  expect(ended).toEqual(['survivor']);
});

test('a crashed engine continues its own runs when launched again', async () => {
  const clock = virtualClock();
  const outcomes: RunOutcome[] = [];
  const engine = createVirtualEngine({
    clock,
    listener: silentListener(async (_, outcome) => void outcomes.push(outcome)),
  });
  engine.register({ kind: 'probe-run', revision: 1, run: (context) => context.sleep(60).then(() => 'slept') });
  await engine.launch();
  await engine.start(run);
  await clock.advance(30_000);
  engine.crash();
  await clock.advance(60_000);
  expect(outcomes).toEqual([]);
  await engine.launch();
  await clock.advance(0);
  expect(outcomes).toEqual([{ status: 'succeeded', result: 'slept' }]);
});
