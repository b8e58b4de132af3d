/** `slipway boots`, `what-if` and `budget` against a scripted server. */
import { beforeEach, describe, expect, test } from 'vitest';
import { emptyBootPhase, samplePoolBoots, sampleWhatIf } from '../../testing/boots-samples.ts';
import { runCli } from '../../testing/run-cli.ts';
import { sampleIds, samplePool } from '../../testing/samples.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  server.on('pool-boots', () => ({ body: samplePoolBoots() }));
  server.on('pool-what-if', () => ({ body: sampleWhatIf() }));
  server.on('pool-budget', () => ({ body: samplePool({ name: 'gpu', budgets: { provision_seconds: 600 } }) }));
  return () => server.stop();
});
const slipway = (...args: string[]) => runCli(args, { server: server.url });

describe('boots', () => {
  test('prints both phases into a pipe, without plots', async () => {
    const { code, stdout } = await slipway('boots', 'gpu');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^gpu · provision, from launch until the machine registers\n {2}recorded/);
    expect(stdout).toContain(
      '\ngpu · start, from registration until the machine is ready\n  No boot is recorded yet.\n',
    );
    expect(stdout).not.toMatch(/[┃░]/);
    expect(server.callsOf('pool-boots')[0]?.params).toEqual({ pool: 'gpu' });
  });
  test('prints one phase, as text and as JSON', async () => {
    expect((await slipway('boots', 'gpu', '--phase', 'start')).stdout).not.toContain('provision');
    const { stdout } = await slipway('boots', 'gpu', '--phase', 'start', '--json');
    expect(JSON.parse(stdout)).toEqual(samplePoolBoots({ phases: [emptyBootPhase] }));
  });
  test('refuses an unknown phase', async () => {
    expect(await slipway('boots', 'gpu', '--phase', 'lunch')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('provision, start'),
    });
  });
});

describe('what-if', () => {
  test('names the slow healthy boot that 400 s would have failed', async () => {
    const { code, stdout } = await slipway('what-if', 'gpu', '--budget', '400');
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^! With 400 s, 1 of 41 boots would have been given up although it arrived; it would have been rescued\.\n/,
    );
    expect(stdout).toMatch(new RegExp(`\\n${sampleIds.node_id} +423 s +23 s +rescued`));
    expect(stdout).toContain('The one stuck boot would have been found 320 s sooner.');
    expect(server.callsOf('pool-what-if')[0]).toMatchObject({ params: { pool: 'gpu' }, body: { budget_seconds: 400 } });
  });
  test('sends the phase and the start time, and prints JSON', async () => {
    const { stdout } = await slipway('what-if', 'gpu', '-b', '1m', '--phase', 'start', '--since', '30d', '--json');
    expect(JSON.parse(stdout)).toEqual(sampleWhatIf());
    expect(server.callsOf('pool-what-if')[0]?.body).toEqual({
      budget_seconds: 60,
      phase: 'start',
      since: expect.stringMatching(/^\d{4}-.*Z$/),
    });
  });
  test('requires a budget: exit 2', async () => {
    expect((await slipway('what-if', 'gpu')).code).toBe(2);
    expect(server.calls).toEqual([]);
  });
});

describe('budget', () => {
  test('sends the budget once, with its reason', async () => {
    const { code, stdout } = await slipway('budget', 'gpu', '10m', '--reason', 'quick since the new image');
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^✔ Machines of gpu have 600 s to register, from the next boot on\n {2}The budget stays until someone changes it\.\n/,
    );
    const [call] = server.callsOf('pool-budget');
    expect(call).toMatchObject({
      params: { pool: 'gpu' },
      body: { phase: 'provision', budget_seconds: 600, reason: 'quick since the new image' },
    });
    expect(call?.body).not.toHaveProperty('policy');
    expect(call?.headers['idempotency-key']).toBeTruthy();
  });
  test('warns if the budget would have failed healthy boots, and prints the undo command', async () => {
    const { code, stdout } = await slipway('budget', 'gpu', '400', '-r', 'x');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^ {2}! With 400 s, 1 of 41 boots would have been given up although it arrived/m);
    expect(stdout).toMatch(/Undo it: +\S+ budget gpu 720 --phase provision --reason "…"\n/);
    server.on('pool-what-if', () => ({ body: sampleWhatIf({ false_kill_count: 0 }) }));
    expect((await slipway('budget', 'gpu', '800', '-r', 'x')).stdout).not.toContain('Undo it');
  });
  test('explains the learned policy, and how to keep the budget fixed', async () => {
    const budgets = { provision_seconds: 600, policy: 'learned' } as const;
    server.on('pool-budget', () => ({ body: samplePool({ name: 'gpu', budgets }) }));
    const { stdout } = await slipway('budget', 'gpu', '600', '--policy', 'learned', '-r', 'let boots find it');
    expect(stdout).toContain('The budget stays for one day. Then recorded boots move it, by at most 25 % a day.\n');
    expect(stdout).toMatch(/Keep it fixed: +\S+ budget gpu 600 --policy fixed --reason "…"\n/);
    expect(server.callsOf('pool-budget')[0]?.body).toMatchObject({ policy: 'learned' });
  });
  test('requires a reason and a valid time: exit 2', async () => {
    expect((await slipway('budget', 'gpu', '600')).code).toBe(2);
    const { code, stderr } = await slipway('budget', 'gpu', 'soon', '-r', 'x');
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining('soon is not a valid budget') });
    expect(server.calls).toEqual([]);
  });
});
