/** Prometheus' own checker reads our /metrics. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { withOutsider } from './support/outsider.ts';

withOutsider('promtool', ({ place }) => {
  const promtool = (args: string[], input = '') =>
    spawnSync(join(place, 'usr/bin/promtool'), args, { input, encoding: 'utf8' });
  let server: SpawnedServer;
  beforeAll(async () => {
    server = await spawnServer();
  });
  afterAll(() => server?.stop());

  it('accepts our metrics', async () => {
    const reply = await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${server.token}` } });
    const metrics = await reply.text();
    expect(metrics).toContain('slipway_');
    const { status, stderr } = promtool(['check', 'metrics'], metrics);
    expect(stderr).toBe('');
    expect(status).toBe(0);
  });

  it('rejects faulty metrics', () => {
    expect(promtool(['check', 'metrics'], 'slipway_count{ 1\n').status).not.toBe(0);
  });
});
