/**
 * A ready machine that keeps reporting `starting` stays ready: its heartbeats prove life, its
 * report is stored, and its status does not go back.
 */
import { expect } from 'vitest';
import type { Machine } from '../../api/support/machine.ts';
import { changesOf, externalPool, joinMachine, keepBeating, nodeOf, waitForNode } from '../support/machines.ts';
import { type ScenarioContext, scenario, withDeciders } from '../support/scenario.ts';

/**
 * Long enough to store a machine's first heartbeat on a busy host; a machine that is silent when
 * the budget ends fails.
 */
const start_seconds = 3;
const moreBeats = 5;

/**
 * Sends more heartbeats that report `starting`. Each is stored and changes only the time of the
 * last heartbeat.
 */
async function expectStaysReady(context: ScenarioContext, machine: Machine): Promise<void> {
  const before = await nodeOf(context, machine.node_id);
  let lastSeen = before.last_seen_at ?? '';
  for (let beat = 1; beat <= moreBeats; beat++) {
    const reply = await machine.beat('starting');
    expect(reply.body.node_status, `answer to heartbeat ${beat}`).toBe('ready');
    const current = await context.waitFor(`heartbeat ${beat} to be stored`, async () => {
      const node = await nodeOf(context, machine.node_id);
      return (node.last_seen_at ?? '') > lastSeen ? node : undefined;
    });
    expect(current).toMatchObject({ status: 'ready', status_since: before.status_since, verdict: before.verdict });
    expect(current.reported).toMatchObject({ status: 'starting' });
    lastSeen = current.last_seen_at ?? '';
  }
}

scenario({
  name: 'a machine that reports starting after it was ready',
  async story(context) {
    await externalPool(context, 'patient', {});
    await externalPool(context, 'hurried', { budgets: { start_seconds } });

    const promotedMachine = await joinMachine(context, 'hurried', 'promoted-by-rule');
    const beats = keepBeating(promotedMachine, 0.2, 'starting');
    const ready = await waitForNode(context, promotedMachine.node_id, 'ready').finally(() => beats.stop());
    expect(ready.verdict?.rule).toBe('stuck-starting');
    // Heartbeats are answered from memory, which is updated a moment after a verdict is committed.
    // After that the status never goes back.
    await context.waitFor(
      'a heartbeat to be answered with ready',
      async () => (await promotedMachine.beat('starting')).body.node_status === 'ready',
    );
    await expectStaysReady(context, promotedMachine);

    // This machine reported ready and then restarts its runtime without a goodbye.
    const restarting = await joinMachine(context, 'patient', 'restarts-inside');
    await restarting.beat('ready');
    await expectStaysReady(context, restarting);

    for (const machine of [promotedMachine, restarting]) {
      expect((await machine.beat()).body.node_status, 'the answer to a heartbeat without a status').toBe('ready');
      expect((await changesOf(context, machine.node_id)).map(({ to }) => to)).toEqual([
        'provisioning',
        'starting',
        'ready',
      ]);
    }
    const reports = await context.waitFor('both reports on the timeline', async () => {
      const { items } = await context.client.call('node-timeline', { params: { id: restarting.node_id } });
      const storedStatuses = items.filter((fact) => fact.kind === 'node.claim').map((fact) => fact.data.status);
      return storedStatuses.length >= 2 ? storedStatuses : undefined;
    });
    expect(reports, 'a repeated report is recorded once').toEqual(['starting', 'ready']);
  },
  counterTests: [
    {
      broken: 'a report of starting taken for a goodbye',
      composition: withDeciders(({ effectOfBeat }) => ({
        effectOfBeat: (node, beat, now) =>
          node.status === 'ready' && beat.status === 'starting'
            ? { to: 'offline', by: 'goodbye', reason: 'it starts again' }
            : effectOfBeat(node, beat, now),
      })),
      fails: /answer to heartbeat 1: expected 'offline' to be 'ready'/,
    },
  ],
});
