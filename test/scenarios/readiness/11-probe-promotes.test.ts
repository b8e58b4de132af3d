/**
 * A machine that never reports ready but answers a health probe becomes ready before its start
 * budget is over.
 */
import { expect } from 'vitest';
import { httpServer } from '../../../src/probe/testing/loopback-servers.ts';
import { externalPool, joinMachine, keepBeating, nodeOf, waitForNode } from '../support/machines.ts';
import { scenario, withoutSweep } from '../support/scenario.ts';

/** Long enough for a probe on a busy host. Without a probe the machine waits this long. */
const start_seconds = 5;

/** A machine's own service, which records the requests. */
async function startService(): Promise<{ base_url: string; requestedPaths: (string | undefined)[] }> {
  const requestedPaths: (string | undefined)[] = [];
  const { port } = await httpServer(({ url }, reply) => {
    requestedPaths.push(url);
    reply.end('well');
  });
  return { base_url: `http://127.0.0.1:${port}`, requestedPaths };
}

scenario({
  name: 'a machine that answers its probe while it starts',
  async story(context) {
    await externalPool(context, 'open', {
      budgets: { start_seconds },
      probe: { path: '/healthz', allow_private: true },
    });
    const service = await startService();
    const machine = await joinMachine(context, 'open', 'answers', { base_url: service.base_url });
    const beats = keepBeating(machine, start_seconds / 10, 'starting');
    const ready = await waitForNode(context, machine.node_id, 'ready').finally(() => beats.stop());
    expect(ready.verdict?.rule).toBe('probe-promotes');
    expect(ready.verdict?.reason).toBe('it answered its probe');
    expect(Date.parse(ready.status_since)).toBeLessThan(Date.parse(machine.deadline_at ?? ''));
    expect(new Set(service.requestedPaths)).toEqual(new Set(['/healthz']));
    const cause = await context.waitFor('the evidence of the verdict', async () => {
      const explanation = await context.client.call('node-explain', { params: { id: machine.node_id } });
      const change = explanation.because.evidence.find((fact) => fact.kind === 'node.ready');
      return change && { rule: explanation.because.rule, evidence: change.data.evidence };
    });
    expect(cause).toMatchObject({
      rule: 'probe-promotes',
      evidence: { probe_ok_at: expect.any(String), reported_status: 'starting' },
    });

    // Machines choose their own address, so a pool must allow private addresses before the server
    // probes them.
    await externalPool(context, 'guarded', { budgets: { start_seconds } });
    const neighbour = await startService();
    const guardedMachine = await joinMachine(context, 'guarded', 'not-asked', { base_url: neighbour.base_url });
    const refusalFact = await context.waitFor('evidence of the refused probe', async () => {
      const { items } = await context.client.call('node-timeline', { params: { id: guardedMachine.node_id } });
      return items.find((fact) => fact.kind === 'probe.unanswered');
    });
    expect(refusalFact.layer).toBe('transport');
    expect(refusalFact.summary).toMatch(/refused_address: .*127\.0\.0\.1/);
    expect(neighbour.requestedPaths).toEqual([]);
    expect((await nodeOf(context, guardedMachine.node_id)).status).toBe('starting');
  },
  counterTests: [
    {
      broken: 'no prober',
      composition: withoutSweep('prober'),
      fails: /expected 'stuck-starting' to be 'probe-promotes'/,
    },
    {
      broken: 'no probe-promotes rule',
      composition: withoutSweep('probe-promotes'),
      fails: /expected 'stuck-starting' to be 'probe-promotes'/,
    },
  ],
});
