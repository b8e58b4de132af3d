/**
 * A machine that reports ready is ready at once. A machine that registers and goes silent fails at
 * its start deadline.
 */
import { expect } from 'vitest';
import { secondsBetween } from '../../../src/base/clock.ts';
import type { Machine } from '../../api/support/machine.ts';
import { changesOf, externalPool, joinMachine, nodeOf, samplesOf, waitForNode } from '../support/machines.ts';
import { type ScenarioContext, scenario, withDeciders, withoutSweep } from '../support/scenario.ts';

const start_seconds = 3;
/** A single heartbeat after the registration is long stale at the start deadline. */
const heartbeat = { interval_seconds: start_seconds / 15, stale_after_seconds: start_seconds / 6 };

async function checkReadyReport(context: ScenarioContext): Promise<void> {
  const machine = await joinMachine(context, 'agents', 'quick');
  const report = { status: 'ready', health_score: 97 };
  const answer = await machine.call('agent-heartbeat', { body: report });
  expect(answer.body, 'the answer to its report').toMatchObject({ node_status: 'ready' });
  const ready = await nodeOf(context, machine.node_id);
  expect(ready).toMatchObject({ status: 'ready', deadline_at: null });
  expect(Date.parse(ready.status_since)).toBeLessThan(Date.parse(machine.deadline_at ?? ''));
  expect((await changesOf(context, machine.node_id)).at(-1)).toMatchObject({ to: 'ready', by: 'claim-ready' });
  await context.waitFor('all fields of the report to be stored', async () => {
    const { reported } = await nodeOf(context, machine.node_id);
    return reported?.health_score === report.health_score;
  });
}

/** The budget comes from the pool and starts at the registration. */
async function expectStarting(context: ScenarioContext, { node_id, deadline_at }: Machine): Promise<void> {
  const node = await nodeOf(context, node_id);
  expect(node).toMatchObject({ status: 'starting', budget_seconds: start_seconds, budget_source: 'pool' });
  expect(secondsBetween(new Date(node.registered_at ?? ''), new Date(deadline_at ?? ''))).toBe(start_seconds);
}

/** Checks that the rule failed the machine at its deadline and not before. */
async function expectFailedInTime(context: ScenarioContext, { node_id, deadline_at }: Machine): Promise<void> {
  const failed = await waitForNode(context, node_id, 'failed');
  expect(failed.verdict).toMatchObject({ rule: 'start-deadline', from: 'starting' });
  expect(failed.verdict?.reason).toMatch(
    /^start-up timed out: registered, then silent \(waited \d+ s, budget from pool\)$/,
  );
  expect(Date.parse(failed.status_since)).toBeGreaterThanOrEqual(Date.parse(deadline_at ?? ''));
  expect(await samplesOf(context, node_id)).toMatchObject([
    { phase: 'provision', outcome: 'completed' },
    { phase: 'start', outcome: 'timed_out', budget_seconds: start_seconds, budget_source: 'pool' },
  ]);
}

scenario({
  name: 'a machine that reports ready, and machines that go silent after registration',
  async story(context) {
    await externalPool(context, 'agents', { budgets: { start_seconds }, heartbeat });
    const neverBeats = await joinMachine(context, 'agents', 'never-beats');
    const beatsOnce = await joinMachine(context, 'agents', 'beats-once');
    await beatsOnce.beat('starting');
    for (const machine of [neverBeats, beatsOnce]) await expectStarting(context, machine);
    await checkReadyReport(context);
    for (const machine of [neverBeats, beatsOnce]) await expectFailedInTime(context, machine);
  },
  counterTests: [
    {
      broken: 'no start-deadline rule',
      composition: withoutSweep('start-deadline'),
      fails: /waited .* for node to be failed/,
      patience_seconds: start_seconds + 2,
    },
    {
      broken: 'a report of ready that is only recorded',
      composition: withDeciders(({ effectOfBeat }) => ({
        effectOfBeat: (node, beat, now) => (node.status === 'starting' ? undefined : effectOfBeat(node, beat, now)),
      })),
      fails: /the answer to its report/,
    },
  ],
});
