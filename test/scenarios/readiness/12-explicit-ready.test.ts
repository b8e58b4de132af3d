/**
 * A machine that reports ready is ready at once; one that registers and goes silent fails at its
 * start deadline.
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
  const said = { status: 'ready', health_score: 97 };
  const answer = await machine.call('agent-heartbeat', { body: said });
  expect(answer.body, 'the answer to its claim').toMatchObject({ node_status: 'ready' });
  const ready = await nodeOf(context, machine.node_id);
  expect(ready).toMatchObject({ status: 'ready', deadline_at: null });
  expect(Date.parse(ready.status_since)).toBeLessThan(Date.parse(machine.deadline_at ?? ''));
  expect((await changesOf(context, machine.node_id)).at(-1)).toMatchObject({ to: 'ready', by: 'claim-ready' });
  await context.waitFor('all that it said to be kept', async () => {
    const { reported } = await nodeOf(context, machine.node_id);
    return reported?.health_score === said.health_score;
  });
}

/** Its budget is the pool's and starts at its registration. */
async function expectStarting(context: ScenarioContext, { node_id, deadline_at }: Machine): Promise<void> {
  const node = await nodeOf(context, node_id);
  expect(node).toMatchObject({ status: 'starting', budget_seconds: start_seconds, budget_source: 'pool' });
  expect(secondsBetween(new Date(node.registered_at ?? ''), new Date(deadline_at ?? ''))).toBe(start_seconds);
}

/** The rule failed it at its deadline and not before. */
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
  name: 'ready by its own report, and silent after registration',
  async story(context) {
    await externalPool(context, 'agents', { budgets: { start_seconds }, heartbeat });
    const mute = await joinMachine(context, 'agents', 'never-beats');
    const fading = await joinMachine(context, 'agents', 'beats-once');
    await fading.beat('starting');
    for (const machine of [mute, fading]) await expectStarting(context, machine);
    await checkReadyReport(context);
    for (const machine of [mute, fading]) await expectFailedInTime(context, machine);
  },
  counters: [
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
      fails: /the answer to its claim/,
    },
  ],
});
