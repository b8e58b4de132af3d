/**
 * Runs each step of every operation, in the first case that reaches it, with each fault that it can
 * have: the replica dies before the step, or after the step's effect but before its record; the
 * step fails until its retries end; the step runs twice. Every case must settle (`isSettled` in
 * support/cases.ts), no machine may be left without an owner, and the invariants of the model must
 * hold. After a crash or a repetition the outcome must equal that without the fault.
 *
 * The test covers every operation in src/operations/registry.ts. In every situation of
 * support/situations.ts it requests every allowed action. The resulting operations first run
 * without faults, which records their steps; then each step runs with each fault. If no situation
 * and request lead to a new operation, the second test fails: add one to that file.
 *
 * Machines, agents and time are simulated (support/upstream.ts, support/agents.ts). The store, the
 * transitions, the rules, the operations and their execution are real.
 * test/chaos/killed-server.test.ts uses real processes and kill -9.
 */
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { operationRegistry } from '../../src/operations/registry.ts';
import type { OperationServices } from '../../src/operations/runtime/services.ts';
import type * as executions from '../../src/store/operations/executions.ts';
import { type Case, type EndedCase, runCases } from './support/cases.ts';
import { type FaultName, faultNames } from './support/faults.ts';
import type { BrokenParts } from './support/operation-fixture.ts';
import { findAllowedCases, findProblems, planFaults } from './support/plan.ts';
import { requests, situations } from './support/situations.ts';

vi.setConfig({ testTimeout: 1_200_000, hookTimeout: 1_200_000 });

/** A counter-test below makes steps ignore their receipts. */
const defects = vi.hoisted(() => ({ ignoresReceipts: false }));
vi.mock('../../src/store/operations/executions.ts', async (importOriginal) => {
  const real = await importOriginal<typeof executions>();
  const runOnce: typeof executions.runOnce = (db, workflow_id, receipt, executor, now, work) =>
    defects.ignoresReceipts
      ? db.transaction(async (tx) => work(tx, await real.lockAsExecutor(tx, workflow_id, executor)))
      : real.runOnce(db, workflow_id, receipt, executor, now, work);
  return { ...real, runOnce };
});

const registeredKinds = () => operationRegistry({} as OperationServices).map(({ kind }) => kind);

let faultFreeCases: EndedCase[];
beforeAll(async () => {
  faultFreeCases = await runCases(await findAllowedCases());
});

test('the cases keep the order of `situations` and `requests`, so that each test run injects a step’s faults into the same case', () => {
  const names = faultFreeCases.map(({ situation, request }) => `${situation.name} / ${request.name}`);
  const tableOrder = situations.flatMap((situation) =>
    requests.map((request) => `${situation.name} / ${request.name}`),
  );
  expect(names).toEqual(tableOrder.filter((name) => names.includes(name)));
});

test('a situation and a request lead to every registered operation', () => {
  const startedKinds = new Set(faultFreeCases.flatMap(({ runs }) => runs.map(({ kind }) => kind)));
  const missingKinds = registeredKinds().filter((kind) => !startedKinds.has(kind));
  expect(missingKinds, 'operations without a situation and a request in support/situations.ts').toEqual([]);
});

test('without faults, every case settles and keeps the invariants', () => {
  expect(findProblems(faultFreeCases, faultFreeCases).join('\n\n')).toBe('');
});

describe('every case settles and keeps the invariants if one step has the fault', () => {
  let cases: EndedCase[];
  beforeAll(async () => {
    cases = await runCases(planFaults(faultFreeCases));
  });

  test.each(faultNames)('%s', (fault) => {
    const casesOfFault = cases.filter(({ target }) => target?.fault === fault);
    expect(new Set(casesOfFault.map(({ target }) => target?.kind))).toEqual(new Set(registeredKinds()));
    expect(findProblems(faultFreeCases, casesOfFault).join('\n\n')).toBe('');
  });
});

describe('the test fails', () => {
  const casesFor = (
    [situationName, requestName]: [string, string],
    step: RegExp,
    faults: readonly FaultName[] = faultNames,
  ): Case[] =>
    planFaults(
      faultFreeCases.filter(
        ({ situation, request }) => situation.name === situationName && request.name === requestName,
      ),
    ).filter(({ target }) => target && step.test(target.record.step) && faults.includes(target.fault));
  const releaseOfActive: [string, string] = ['an active allocation', 'release (allocation)'];
  const runAndFindProblems = async (cases: Case[], brokenParts: BrokenParts = {}) => {
    expect(cases.length, 'number of cases').toBeGreaterThan(0);
    return findProblems(faultFreeCases, await runCases(cases, brokenParts)).join('\n\n');
  };

  test('if steps ignore the receipts of their effects', async () => {
    const cases = casesFor(releaseOfActive, /:ask$/, ['crash after the effect', 'repetition']);
    defects.ignoresReceipts = true;
    const problems = await runAndFindProblems(cases).finally(() => {
      defects.ignoresReceipts = false;
    });
    expect(problems).toMatch(/clean:agent:1:ask, crash after the effect.*2 × task release\.clean/s);
    expect(problems).toMatch(/clean:agent:1:ask, repetition.*2 × task release\.clean/s);
  });

  test('if each launch call tags the machine with another instance id, so that the driver does not find it again', async () => {
    const cases = casesFor(['an empty pool', 'allocate'], /^launch:ensure:1$/);
    let calls = 0;
    const driver: BrokenParts['driver'] = (original) => ({
      ...original,
      ensure: (target) =>
        original.ensure({ ...target, node_instance_id: `${target.node_instance_id}-${calls++}` as never }),
    });
    expect(await runAndFindProblems(cases, { driver, max_ticks: 40 })).toMatch(/upstream without an owner/);
  });

  test('if the rule that retries releases is missing', async () => {
    const cases = casesFor(releaseOfActive, /^clean:destroy/);
    const sweeps: BrokenParts['sweeps'] = (original) => original.filter(({ name }) => name !== 'release-retry');
    expect(await runAndFindProblems(cases, { sweeps, max_ticks: 40 })).toMatch(
      /failures until the retries end.*does not settle.*release_failed/s,
    );
  });
});
