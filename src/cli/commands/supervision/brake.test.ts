/** `slipway brake`, `slipway sweeps`, and held verdicts on nodes. */
import { beforeEach, expect, test } from 'vitest';
import { runCli } from '../../testing/run-cli.ts';
import { sampleIds, sampleNode } from '../../testing/samples.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';
import {
  sampleBrake,
  sampleExplanation,
  sampleHeld,
  sampleHold,
  sampleSweep,
} from '../../testing/supervision-samples.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  server.on('node-explain', () => ({ body: sampleExplanation() }));
  return () => server.stop();
});
const slipway = (...args: string[]) => runCli(args, { server: server.url });

test('shows holds, and releases one or all with a reason', async () => {
  server.on('brake-get', () => ({ body: sampleBrake({ holding: true, holds: [sampleHold()] }) }));
  server.on('brake-resume', () => ({ body: sampleBrake() }));
  for (const words of [['brake'], ['brake', 'show'], ['brake', 'list']])
    expect((await slipway(...words)).stdout).toContain('! liveness in pool fleet');
  expect(JSON.parse((await slipway('brake', '--json')).stdout).holds).toHaveLength(1);
  const one = await slipway('brake', 'resume', '--hold', 'hold_1', '--reason', 'really gone');
  expect(one).toMatchObject({ code: 0, stdout: '✔ hold_1 is released; the rules decide again within seconds\n' });
  await slipway('brake', 'resume', '--reason', 'all of it');
  expect(server.callsOf('brake-resume').map(({ body }) => body)).toEqual([
    { reason: 'really gone', hold_id: 'hold_1' },
    { reason: 'all of it' },
  ]);
});
test('names the brake command when the hold no longer exists', async () => {
  server.refuse('brake-resume', { code: 'hold_not_found' });
  const { code, stderr } = await slipway('brake', 'resume', '--hold', 'hold_0', '--reason', 'x');
  expect(code).toBe(4);
  expect(stderr).toMatch(/List the holds: \S*slipway brake\n/);
});

test('requires a reason to release holds, and sends nothing without one', async () => {
  const { code, stderr } = await slipway('brake', 'resume');
  expect(code).toBe(2);
  expect(stderr).toContain("required option '-r, --reason <text>'");
  expect(server.calls).toEqual([]);
});

test('lists sweeps with last run, lateness, decisions and failures', async () => {
  const broken = sampleSweep({ name: 'orphans', error: 'deadlock', failed_at: '2026-01-01T12:00:00.000Z', held: 0 });
  server.on('sweep-list', () => ({ body: { replica_id: 'rep_1', items: [sampleSweep(), broken] } }));
  const { stdout } = await slipway('sweeps');
  expect(stdout).toMatch(/^liveness +\d+d ago +4 ms +0\.8s +3 +8 +120$/m);
  expect(stdout).toMatch(/^orphans .* failed \d+d ago: deadlock$/m);
});

test('nodes --held lists held nodes with their verdict', async () => {
  server.nodes.set(sampleIds.node_id, sampleNode({ held: sampleHeld() }));
  const { stdout } = await slipway('nodes', '--held', '--status', 'ready');
  expect(server.callsOf('node-list')[0]?.query).toMatchObject({ held: 'true', status: 'ready' });
  expect(stdout).toContain('held, would be offline: 8 of 12 machines in pool fleet would be given up within 60 s');
});

test('node shows held and observed verdicts, and what it waits for', async () => {
  const would_have = { rule: 'liveness', to: 'offline', reason: 'silent for 42 s', at: '2026-01-01T12:00:00.000Z' };
  server.nodes.set(sampleIds.node_id, sampleNode({ held: sampleHeld(), would_have, waiting_for: 'capacity' }));
  const { stdout } = await slipway('node', sampleIds.node_id);
  expect(stdout).toMatch(
    /held +would be offline, but too many machines failed at once: .*; held until .* \[liveness\]/,
  );
  expect(stdout).toMatch(
    /would have +been offline, but its pool is observe-only: silent for 42 s {2}\[liveness, \d+d ago\]/,
  );
  expect(stdout).toMatch(/waits for +capacity/);
});
