/**
 * A machine that sends heartbeats but never reports more than `starting` becomes ready when its
 * start budget is over, and not before.
 */
import { expect } from 'vitest';
import { secondsBetween } from '../../../src/base/clock.ts';
import { causesOf, externalPool, joinMachine, keepBeating, waitForNode } from '../support/machines.ts';
import { scenario, withoutSweep } from '../support/scenario.ts';

const start_seconds = 2;
/** Long enough that the machine does not count as silent, however busy the host is. */
const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 600 };

scenario({
  name: 'a healthy machine that keeps reporting starting',
  async story(context) {
    await externalPool(context, 'agents', {
      budgets: { start_seconds },
      heartbeat,
    });
    const machine = await joinMachine(context, 'agents', 'stuck-1');
    const beats = keepBeating(machine, 0.3, 'starting');
    try {
      const ready = await waitForNode(context, machine.node_id, 'ready');
      expect(ready.verdict).toMatchObject({ rule: 'stuck-starting' });
      const waitedSeconds = secondsBetween(new Date(ready.registered_at ?? ''), new Date(ready.status_since));
      expect(waitedSeconds).toBeGreaterThanOrEqual(start_seconds);
      expect(await causesOf(context, machine.node_id)).toEqual(['join', 'registration', 'stuck-starting']);
      const overview = await context.client.call('overview-get', {});
      expect(overview.never_ready).toEqual([{ pool: 'agents', agent_version: 'test', nodes: 1 }]);
    } finally {
      await beats.stop();
    }
  },
  counterTests: [
    {
      broken: 'no stuck-starting rule',
      composition: withoutSweep('stuck-starting'),
      fails: /waited .* for node to be ready/,
    },
  ],
});
