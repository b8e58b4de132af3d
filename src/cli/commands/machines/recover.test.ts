/** `slipway recover` against a scripted server. */
import { beforeEach, expect, test } from 'vitest';
import { runCli } from '../../testing/run-cli.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  return () => server.stop();
});
const slipway = (...args: string[]) => runCli(args, { server: server.url });

const recovery = { dry_run: false, matched: 0, eligible: 0, not_eligible: [], first: [], operation: null };
const flags = ['--pool', 'gpu', '--label', 'rack=7', '--older-than', '10m', '--per-minute', '30', '-r', 'disk is free'];
test('sends the default action of a status, the filter and the pace', async () => {
  server.on('fleet-recover', () => ({ status: 202, body: recovery }));
  const { code, stdout } = await slipway('recover', '--status', 'release_failed', ...flags);
  expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('Nothing to recover') });
  expect(server.callsOf('fleet-recover')[0]?.body).toEqual({
    action: 'retry-release',
    filter: { status: 'release_failed', pool: 'gpu', labels: { rack: '7' }, older_than_seconds: 600 },
    reason: 'disk is free',
    canary: 1,
    per_minute: 30,
    stop_after_failures: 3,
  });
});
test('prints how many a dry run would recover, and the first ids', async () => {
  const preview = { ...recovery, dry_run: true, matched: 12, eligible: 12, first: ['alloc_1', 'alloc_2'] };
  server.on('fleet-recover', () => ({ status: 202, body: preview }));
  const { stdout } = await slipway('recover', '--status', 'release_failed', '--dry-run');
  expect(stdout).toContain('Would recover 12: retries failed releases; nothing was changed');
  expect(stdout).toContain('alloc_1 · alloc_2 · and 10 more');
});
test('prints which are skipped and why, and fails if all are skipped', async () => {
  const not_eligible = [
    { why_not: 'An allocation uses it; release the allocation first.', count: 3, first: ['node_1'] },
  ];
  const some = { ...recovery, dry_run: true, matched: 5, eligible: 2, first: ['node_4', 'node_5'], not_eligible };
  server.on('fleet-recover', () => ({ status: 202, body: some }));
  const command = ['recover', '--action', 'retire', '--pool', 'gpu', '-r', 'x'];
  const { stdout } = await slipway(...command, '--dry-run');
  expect(stdout).toContain('Would recover 2 of 5: retires machines; nothing was changed');
  expect(stdout).toContain('  node_4 · node_5\n');
  expect(stdout).toContain('  3 are skipped: An allocation uses it; release the allocation first.\n');
  expect(stdout).toContain('    node_1 · and 2 more\n');
  server.on('fleet-recover', () => ({ status: 202, body: { ...some, eligible: 0, first: [] } }));
  expect(await slipway(...command)).toMatchObject({
    code: 4,
    stdout: expect.stringContaining('Nothing was started: retire is not available for any of the 5 that match'),
  });
});
test('requires an action if the status has no default one: exit 2', async () => {
  expect((await slipway('recover', '--status', 'ready', '--pool', 'gpu', '-r', 'x')).code).toBe(2);
});
