/** `slipway maintenance` against a scripted server. */
import { beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../../base/clock.ts';
import { runCli } from '../../testing/run-cli.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';
import { sampleWindow } from '../../testing/supervision-samples.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  return () => server.stop();
});
const slipway = (...args: string[]) => runCli(args, { server: server.url });

test('lists windows, and says if there are none', async () => {
  server.on('maintenance-list', () => ({ body: { items: [], next_cursor: null } }));
  expect((await slipway('maintenance')).stdout).toContain('No maintenance window is open or planned');
  server.on('maintenance-list', () => ({ body: { items: [sampleWindow()], next_cursor: null } }));
  expect((await slipway('maintenance')).stdout).toMatch(
    /^switch +zone eu-1, rack=7 +open, ends in .* +ops +a new switch$/m,
  );
});
test('starts a window for a duration and a scope', async () => {
  server.on('maintenance-put', () => ({ body: sampleWindow() }));
  const before = systemClock.nowMs();
  const { code, stdout } = await slipway(
    ...['maintenance', 'start', 'switch', '--zone', 'eu-1', '--label', 'rack=7', '--for', '45m', '-r', 'a new switch'],
  );
  expect(code).toBe(0);
  expect(stdout).toMatch(/✔ switch: verdicts pause for zone eu-1, rack=7 until .*\n.*maintenance end switch\n/);
  const [call] = server.callsOf('maintenance-put');
  expect(call).toMatchObject({
    params: { name: 'switch' },
    body: { zone: 'eu-1', labels: { rack: '7' }, reason: 'a new switch' },
  });
  const seconds = (Date.parse(Object(call?.body).ends_at) - before) / 1000;
  expect(seconds).toBeGreaterThanOrEqual(45 * 60);
  expect(seconds).toBeLessThanOrEqual(45 * 60 + (systemClock.nowMs() - before) / 1000);
});
test('starts a window between two moments', async () => {
  server.on('maintenance-put', () => ({ body: sampleWindow() }));
  const times = ['--from', '2027-01-31T14:00:00+01:00', '--until', '2027-01-31T15:00:00Z'];
  await slipway('maintenance', 'start', 'night', '--pool', 'gpu', ...times, '--reason', 'x');
  expect(server.callsOf('maintenance-put')[0]?.body).toEqual({
    pool: 'gpu',
    starts_at: '2027-01-31T13:00:00.000Z',
    ends_at: '2027-01-31T15:00:00.000Z',
    reason: 'x',
  });
});
test('ends a window by its name', async () => {
  server.on('maintenance-delete', () => ({ status: 204, body: '' }));
  expect((await slipway('maintenance', 'end', 'switch')).stdout).toContain('✔ switch has ended');
  expect(server.callsOf('maintenance-delete')[0]?.params).toEqual({ name: 'switch' });
});

test.each([
  [['start', 'x', '--for', '1h', '--reason', 'y'], 'must name its machines'],
  [['start', 'x', '--pool', 'p', '--reason', 'y'], 'needs an end'],
  [['start', 'x', '--pool', 'p', '--until', '2027-01-31T14:00', '--reason', 'y'], 'with its zone'],
  [['start', 'x', '--pool', 'p', '--for', '1h'], "required option '-r, --reason <text>'"],
])('refuses maintenance %j and sends nothing', async (args, message) => {
  const { code, stderr } = await slipway('maintenance', ...args);
  expect(code).toBe(2);
  expect(stderr).toContain(message);
  expect(server.calls).toEqual([]);
});
