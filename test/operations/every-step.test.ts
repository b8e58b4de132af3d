/**
 * Every step of every operation, and what can befall it: the replica dies before the step, the replica dies when the step has
 * done its work but nothing is recorded, the step fails until its retries end, the step happens twice. Whatever it is, the
 * outcome is one that the tables allow, nothing is launched or left twice, and the invariants of the model hold.
 *
 * How an operation joins: by its line in src/operations/registry.ts. In every situation of support/situations.ts every action
 * is asked for that the tables of lifecycle/ open there, and whatever operations come of it are run once
 * undisturbed, which tells their steps; then each step is tried with each fault. So a new operation that an action or a rule
 * brings about in one of the situations needs nothing here. One that no pair of a situation and an ask brings about fails
 * the first test; it needs a situation or an ask, a few lines of data in support/situations.ts.
 *
 * Simulated: the machines, their agents and the time (support/upstream.ts, agents.ts). Real: the store, the door, the rules, the
 * operations and the engine's execution of them. The same with real processes and kill -9: test/chaos/killed-server.test.ts.
 */
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { operationRegistry } from '../../src/operations/registry.ts';
import type { OperationServices } from '../../src/operations/runtime/services.ts';
import type * as executions from '../../src/store/operations/executions.ts';
import { type Case, type EndedCase, runCases } from './support/cases.ts';
import { type FaultName, faultNames } from './support/faults.ts';
import { everyFault, everyPair, judge } from './support/plan.ts';
import { asks, situations } from './support/situations.ts';
import type { Broken } from './support/workshop.ts';

vi.setConfig({ testTimeout: 1_200_000, hookTimeout: 1_200_000 });

/** For the counter-test below: receipts are neither kept nor asked for. */
const wrong = vi.hoisted(() => ({ receipts: false }));
vi.mock('../../src/store/operations/executions.ts', async (whole) => {
  const real = await whole<typeof executions>();
  const runOnce: typeof executions.runOnce = (db, workflow_id, receipt, executor, now, work) =>
    wrong.receipts
      ? db.transaction(async (tx) => work(tx, await real.lockAsExecutor(tx, workflow_id, executor)))
      : real.runOnce(db, workflow_id, receipt, executor, now, work);
  return { ...real, runOnce };
});

const registeredKinds = () => operationRegistry({} as OperationServices).map(({ kind }) => kind);

let undisturbed: EndedCase[];
beforeAll(async () => {
  undisturbed = await runCases(await everyPair());
});

test('they stand in the order of the tables, so that no chance decides in which of them a step is tried', () => {
  const stand = undisturbed.map(({ situation, ask }) => `${situation.name} / ${ask.name}`);
  const places = situations.flatMap((situation) => asks.map((ask) => `${situation.name} / ${ask.name}`));
  expect(stand).toEqual(places.filter((place) => stand.includes(place)));
});

test('every operation that is registered is brought about', () => {
  const brought = new Set(undisturbed.flatMap(({ runs }) => runs.map(({ kind }) => kind)));
  const missing = registeredKinds().filter((kind) => !brought.has(kind));
  expect(missing, 'add a situation or an ask to support/situations.ts that brings these about').toEqual([]);
});

test('undisturbed, every one ends where the tables allow', () => {
  expect(judge(undisturbed, undisturbed).join('\n\n')).toBe('');
});

describe('each step of each operation', () => {
  let tried: EndedCase[];
  beforeAll(async () => {
    tried = await runCases(everyFault(undisturbed));
  });

  test.each(faultNames)('%s', (fault) => {
    const these = tried.filter(({ target }) => target?.fault === fault);
    expect(new Set(these.map(({ target }) => target?.kind))).toEqual(new Set(registeredKinds()));
    expect(judge(undisturbed, these).join('\n\n')).toBe('');
  });
});

describe('it would be noticed', () => {
  const faultsOf = (where: [string, string], step: RegExp, faults: readonly FaultName[] = faultNames): Case[] =>
    everyFault(undisturbed.filter(({ situation, ask }) => situation.name === where[0] && ask.name === where[1])).filter(
      ({ target }) => target && step.test(target.seen.step) && faults.includes(target.fault),
    );
  const releaseOfServed: [string, string] = ['a tenant is served', 'release (allocation)'];
  const verdict = async (cases: Case[], broken: Broken = {}) => {
    expect(cases.length, 'cases to try').toBeGreaterThan(0);
    return judge(undisturbed, await runCases(cases, broken)).join('\n\n');
  };

  test('if a step kept no receipt of what it did', async () => {
    const cases = faultsOf(releaseOfServed, /:ask$/, ['crash after its effect', 'repeated']);
    wrong.receipts = true;
    const found = await verdict(cases).finally(() => {
      wrong.receipts = false;
    });
    expect(found).toMatch(/clean:agent:1:ask, crash after its effect.*2 × task release\.clean/s);
    expect(found).toMatch(/clean:agent:1:ask, repeated.*2 × task release\.clean/s);
  });

  test('if a machine were launched without the tag that finds it again', async () => {
    const cases = faultsOf(['an empty pool', 'allocate'], /^launch:ensure:1$/);
    let calls = 0;
    const driver: Broken['driver'] = (whole) => ({
      ...whole,
      ensure: (target) =>
        whole.ensure({ ...target, node_instance_id: `${target.node_instance_id}-${calls++}` as never }),
    });
    expect(await verdict(cases, { driver, most_ticks: 40 })).toMatch(/upstream and nobody owns it/);
  });

  test('if a rule that moves things on were missing', async () => {
    const cases = faultsOf(releaseOfServed, /^clean:destroy/);
    const sweeps: Broken['sweeps'] = (whole) => whole.filter(({ name }) => name !== 'release-retry');
    expect(await verdict(cases, { sweeps, most_ticks: 40 })).toMatch(
      /fails until its retries end.*still moves.*release_failed/s,
    );
  });
});
