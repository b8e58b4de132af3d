/**
 * Tests that the watcher stops at the node's deadline. A crash that is found later is recorded as
 * an explanation, and does not replace the verdict of the rule.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { simulatedDriver } from '../../../test/scenarios/support/simulated-driver.ts';
import { testDatabase } from '../../../test/support/database.ts';
import { secondsLater } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import type { Driver } from '../../drivers/driver.ts';
import { type RuleFixture, ruleFixture } from '../../sweeps/testing/rule-fixture.ts';
import type { Subject } from '../runtime/subject.ts';
import { bootstrapWatcher } from './bootstrap-watcher.ts';

let fixture: RuleFixture;
let subject: Subject;
let inspectCalls: number;
let duringDiagnosis: () => Promise<void>;
const budgetSeconds = 60;

beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('p');
  const ids = await fixture.addNodes({ pool: 'p', count: 1, status: 'provisioning' });
  const [node] = await fixture.readNodes(ids);
  if (!node?.node_instance_id) throw new Error('the node does not exist');
  inspectCalls = 0;
  duringDiagnosis = async () => {};
  const driver: Driver = simulatedDriver({
    inspect: async () => {
      inspectCalls++;
      return { state: 'exited', present: true, ready: false, detail: null };
    },
    diagnose: async () => {
      await duringDiagnosis();
      return { summary: 'the machine went down at once', certain: true, attachments: [] };
    },
  });
  const { node_id, node_instance_id } = node;
  subject = {
    node: { ...node, deadline_at: secondsLater(fixture.start, budgetSeconds) },
    ...{ node_instance_id, driver, target: {}, ids: { node_id, node_instance_id } },
  } as unknown as Subject;
});
afterEach(() => fixture.close());

const inspect = () => bootstrapWatcher(fixture.services, 'wf_1' as WorkflowId).inspect(subject);
const readDiagnoses = () => fixture.db.query("select 1 from evidence where kind = 'bootstrap.diagnosis'");

test('returns a certain crash before the deadline', async () => {
  expect(await inspect()).toEqual({ code: 'machine_crashed', message: 'the machine went down at once' });
  expect(await readDiagnoses()).toHaveLength(1);
});

test('does not inspect the machine after the deadline', async () => {
  await fixture.clock.advance((budgetSeconds + 1) * 1000);
  expect(await inspect()).toBeUndefined();
  expect(inspectCalls).toBe(0);
  expect(await readDiagnoses()).toEqual([]);
});

test('records a crash found while the deadline passes, but does not return it', async () => {
  duringDiagnosis = () => fixture.clock.advance((budgetSeconds + 1) * 1000);
  expect(await inspect()).toBeUndefined();
  expect(inspectCalls).toBe(1);
  expect(await readDiagnoses()).toHaveLength(1);
});
