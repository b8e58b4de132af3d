/**
 * Legitimate use stays within the default limits. A machine over its limit is refused without harm
 * to others, and its node shows what was dropped.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  countRefused,
  createPoolWithToken,
  createTenantToken,
  startMachineInNewPool,
  tightLimits,
} from '../../attacks/support/floods.ts';
import { openSlowBody } from '../../attacks/support/slow-bodies.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { callRoute } from '../support/calls.ts';
import { startMachine } from '../support/machine.ts';

const readStatus = async ({ client }: SpawnedServer, id: string) =>
  (await client.call('node-get', { params: { id } })).status;

describe('with the default limits', () => {
  let server: SpawnedServer;
  beforeAll(async () => {
    server = await spawnServer();
  });
  afterAll(() => server?.stop());

  it('accepts a boot of a hundred stages, each reported when it ends and then all together', async () => {
    const machine = await startMachineInNewPool(server, 'long-boot');
    const stages = Array.from({ length: 100 }, (_, index) => ({ name: `stage-${index}`, seconds: index }));
    const refusedCount = await countRefused(100, (index) =>
      machine.call('agent-boot', { body: { stages: [stages[index]] } }),
    );
    expect(refusedCount).toBe(0);
    expect((await machine.call('agent-boot', { body: { stages } })).status).toBe(200);
  });

  it('serves a rack of machines behind one address that register, restart and report', async () => {
    const join_token = await createPoolWithToken(server, 'rack');
    const names = Array.from({ length: 300 }, (_, index) => `rack-${index}`);
    const statuses: number[] = [];
    const queue = names.values();
    const bootMachines = async () => {
      for (const name of queue) {
        const machine = await startMachine(server.url, { join_token, name });
        const restart = await machine.call('agent-register', { body: { version: 'test' } });
        const stage = await machine.call('agent-boot', { body: { stages: [{ name: 'disk', seconds: 1 }] } });
        statuses.push(restart.status, stage.status, (await machine.beat('ready')).status);
      }
    };
    await Promise.all(Array.from({ length: 10 }, bootMachines));
    expect(statuses).toHaveLength(3 * names.length);
    expect(new Set(statuses)).toEqual(new Set([200]));
  });

  it('registers three hundred machines behind one address at once', async () => {
    const join_token = await createPoolWithToken(server, 'stampede');
    const names = Array.from({ length: 300 }, (_, index) => `stampede-${index}`);
    const machines = await Promise.all(names.map((name) => startMachine(server.url, { join_token, name })));
    const beats = machines.map(({ credential }) => ({ credential }));
    const batches = await Promise.all(
      Array.from({ length: 20 }, () => callRoute(server.url, 'agent-heartbeats', { body: { beats } })),
    );
    for (const { body } of batches)
      expect((body.results as object[]).every((result) => 'node_status' in result)).toBe(true);
  });

  it('accepts many large batches of a relay at once', async () => {
    const machine = await startMachineInNewPool(server, 'relayed');
    const body = { name: 'large', role: 'relay', pool: 'relayed' } as const;
    const { token: bearer = '' } = await server.client.call('token-create', { body });
    const paddedBeat = { credential: machine.credential, message: 'x'.repeat(800) };
    const beats = Array.from({ length: 1000 }, () => paddedBeat);
    const batches = Array.from({ length: 30 }, () =>
      openSlowBody(server.url, 'agent-heartbeats', { beats }, { bearer }),
    );
    await machine.beat('ready');
    for (const batch of batches) batch.finish();
    const statuses = await Promise.all(batches.map(({ replied }) => replied));
    expect(new Set(statuses)).toEqual(new Set([200]));
  });

  it('accepts sixty allocations of a tenant at once', async () => {
    await createPoolWithToken(server, 'sixty');
    const bearer = await createTenantToken(server, 'sixty');
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        callRoute(server.url, 'allocation-create', { body: { pool: 'sixty', name: `one-${index}` } }, { bearer }),
      ),
    );
    expect(answers.filter(({ status }) => status === 429)).toEqual([]);
  });
});

describe('with tight limits', () => {
  let server: SpawnedServer;
  beforeAll(async () => {
    server = await spawnServer({ args: tightLimits });
  });
  afterAll(() => server?.stop());

  it('records the newest report of a flapping machine, and how many reports were coalesced', async () => {
    const machine = await startMachineInNewPool(server, 'flapping');
    const { node_id } = machine;
    await countRefused(200, (index) => machine.beat(index % 2 === 0 ? 'degraded' : 'ready'));
    await machine.beat('degraded');
    expect(await readStatus(server, node_id)).not.toBe('offline');
    const report = await until('evidence of the coalesced reports', async () => {
      const { items } = await server.client.call('node-timeline', {
        params: { id: node_id },
        query: { kind: 'evidence.dropped' },
      });
      return items[0];
    });
    expect(Number(report.data.reports_coalesced)).toBeGreaterThan(0);
    const { because } = await server.client.call('node-explain', { params: { id: node_id } });
    expect(because.evidence.map(({ kind }) => kind)).toContain('evidence.dropped');
    await until('the newest report to be recorded', async () => (await readStatus(server, node_id)) === 'degraded', {
      seconds: 90,
    });
  });

  it('answers a machine over its limit with a retry time, and does not block others', async () => {
    const loud = await startMachineInNewPool(server, 'loud');
    const quiet = await startMachineInNewPool(server, 'quiet');
    const stages = (seconds: number) => Array.from({ length: 150 }, (_, index) => ({ name: `s-${index}`, seconds }));
    await countRefused(3, (index) => loud.call('agent-boot', { body: { stages: stages(index) } }));
    const refusal = await loud.call('agent-boot', { body: { stages: stages(9) } });
    expect(refusal.status).toBe(429);
    expect(refusal.body.code).toBe('write_limit_reached');
    expect(Number(refusal.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await loud.beat('ready')).status, 'its heartbeat is accepted').toBe(200);
    expect((await quiet.call('agent-boot', { body: { stages: stages(1) } })).status).toBe(200);
    const metrics = await server.client.call('metrics-get', {});
    expect(String(metrics)).toMatch(/slipway_limited_total\{of="instance",what="requests_refused"\} \d/);
  });
});
