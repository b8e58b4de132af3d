/**
 * Every step of every operation with every fault: the replica dies before the step, or after its
 * effect but before its record; the step fails until its retries end; the step runs twice. The
 * outcome is always one that the tables allow, nothing is launched or left twice, and the
 * invariants of the model hold.
 *
 * A new operation joins by its line in src/operations/registry.ts. In every situation of
 * support/situations.ts, every open action is requested, and the resulting operations run once
 * without faults, which shows their steps; then each step runs with each fault. An operation that
 * no situation and request lead to fails the second test: add a situation or a request there.
 *
 * Simulated: machines, agents and time (support/upstream.ts, agents.ts). Real: the store, the
 * transitions, the rules, the operations and their execution. With real processes and kill -9:
 * test/chaos/killed-server.test.ts.
 */
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { operationRegistry } from '../../src/operations/registry.ts';
import type { OperationServices } from '../../src/operations/runtime/services.ts';
import type * as executions from '../../src/store/operations/executions.ts';
import { type Case, type EndedCase, runCases } from './support/cases.ts';
import { type FaultName, faultNames } from './support/faults.ts';
import { everyFault, everyPair, judge } from './support/plan.ts';
import { requests, situations } from './support/situations.ts';
import type { Broken } from './support/workshop.ts';

vi.setConfig({ testTimeout: 1_200_000, hookTimeout: 1_200_000 });

/** For the counter-test below: ignores receipts. */
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

let faultless: EndedCase[];
beforeAll(async () => {
  faultless = await runCases(await everyPair());
});

test('the cases are in the order of the tables, so that each run tries a step in the same case', () => {
  const order = faultless.map(({ situation, request }) => `${situation.name} / ${request.name}`);
  const places = situations.flatMap((situation) => requests.map((request) => `${situation.name} / ${request.name}`));
  expect(order).toEqual(places.filter((place) => order.includes(place)));
});

test('every registered operation runs', () => {
  const started = new Set(faultless.flatMap(({ runs }) => runs.map(({ kind }) => kind)));
  const missing = registeredKinds().filter((kind) => !started.has(kind));
  expect(missing, 'add a situation or a request to support/situations.ts that starts these').toEqual([]);
});

test('without faults, every operation ends in a status that the tables allow', () => {
  expect(judge(faultless, faultless).join('\n\n')).toBe('');
});

describe('each step of each operation', () => {
  let tried: EndedCase[];
  beforeAll(async () => {
    tried = await runCases(everyFault(faultless));
  });

  test.each(faultNames)('%s', (fault) => {
    const these = tried.filter(({ target }) => target?.fault === fault);
    expect(new Set(these.map(({ target }) => target?.kind))).toEqual(new Set(registeredKinds()));
    expect(judge(faultless, these).join('\n\n')).toBe('');
  });
});

describe('the test fails', () => {
  const faultsOf = (where: [string, string], step: RegExp, faults: readonly FaultName[] = faultNames): Case[] =>
    everyFault(
      faultless.filter(({ situation, request }) => situation.name === where[0] && request.name === where[1]),
    ).filter(({ target }) => target && step.test(target.seen.step) && faults.includes(target.fault));
  const releaseOfServed: [string, string] = ['a tenant is served', 'release (allocation)'];
  const verdict = async (cases: Case[], broken: Broken = {}) => {
    expect(cases.length, 'cases to try').toBeGreaterThan(0);
    return judge(faultless, await runCases(cases, broken)).join('\n\n');
  };

  test('if a step stores no receipt of its effect', async () => {
    const cases = faultsOf(releaseOfServed, /:ask$/, ['crash after its effect', 'repeated']);
    wrong.receipts = true;
    const found = await verdict(cases).finally(() => {
      wrong.receipts = false;
    });
    expect(found).toMatch(/clean:agent:1:ask, crash after its effect.*2 × task release\.clean/s);
    expect(found).toMatch(/clean:agent:1:ask, repeated.*2 × task release\.clean/s);
  });

  test('if a machine is launched without the tag that finds it again', async () => {
    const cases = faultsOf(['an empty pool', 'allocate'], /^launch:ensure:1$/);
    let calls = 0;
    const driver: Broken['driver'] = (whole) => ({
      ...whole,
      ensure: (target) =>
        whole.ensure({ ...target, node_instance_id: `${target.node_instance_id}-${calls++}` as never }),
    });
    expect(await verdict(cases, { driver, max_ticks: 40 })).toMatch(/upstream without an owner/);
  });

  test('if a rule that retries releases is missing', async () => {
    const cases = faultsOf(releaseOfServed, /^clean:destroy/);
    const sweeps: Broken['sweeps'] = (whole) => whole.filter(({ name }) => name !== 'release-retry');
    expect(await verdict(cases, { sweeps, max_ticks: 40 })).toMatch(
      /fails until its retries end.*still moves.*release_failed/s,
    );
  });
});
