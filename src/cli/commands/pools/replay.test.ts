/** Checks the request that `slipway replay` sends, and the text that it prints. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Value } from 'typebox/value';
import { beforeEach, describe, expect, test } from 'vitest';
import { type ReplayDifference, type ReplayedPool, ReplayReply } from '../../../contract/supervision/replay.ts';
import { replayLines } from '../../render/pools/replay.ts';
import { plain } from '../../render/text/palette.ts';
import { runCli } from '../../testing/run-cli.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';

const difference = (fields: Partial<ReplayDifference> = {}): ReplayDifference => ({
  kind: 'boot_spared',
  at: '2026-01-01T00:12:00.000Z',
  pool: 'gpu',
  node_id: 'node_1',
  node_instance_id: 'inst_1',
  rule: 'provision-deadline',
  was: { verdict: 'failed', at: '2026-01-01T00:12:00.000Z', reason: 'provisioning timed out' },
  would_be: { verdict: 'starting', at: '2026-01-01T00:13:20.000Z', reason: 'it registered after 800 s' },
  sure: true,
  ...fields,
});

const stuck = (node_id: string, at: string) =>
  difference({
    node_id,
    kind: 'stuck_later',
    would_be: { verdict: 'failed', at, reason: 'waited 900 s, budget of 900 s from pool' },
    sure: false,
  });

const pool = (fields: Partial<ReplayedPool> = {}): ReplayedPool => ({
  pool: 'gpu',
  boots: 340,
  absences: 2,
  decisions: 342,
  otherwise: 3,
  kinds: [
    { kind: 'stuck_later', count: 2 },
    { kind: 'boot_spared', count: 1 },
  ],
  differences: [difference(), stuck('node_2', '2026-01-01T00:15:00.000Z'), stuck('node_3', '2026-01-01T00:17:00.000Z')],
  untold: [{ kind: 'kept', says: 'Something else decided on these.', count: 4, node_ids: ['a', 'b', 'c', 'd'] }],
  ...fields,
});

const reply = (...pools: ReplayedPool[]): ReplayReply => ({
  since: '2025-12-02T00:00:00.000Z',
  until: '2026-01-01T01:00:00.000Z',
  pools,
});

const context = {
  paint: plain,
  width: 100,
  limit: 25,
  commandLine: (...words: string[]) => words.join(' '),
  file: null,
};
const render = (answer: ReplayReply, overrides: Partial<typeof context> = {}) =>
  replayLines(answer, { ...context, ...overrides }).join('\n');

let server: ScriptedServer;
let directory: string;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  directory = mkdtempSync(join(tmpdir(), 'slipway-replay-'));
  server.on('policy-replay', () => ({ body: reply(pool()) }));
  return async () => {
    await server.stop();
    rmSync(directory, { recursive: true });
  };
});

const file = (text: string): string => {
  const path = join(directory, 'policy.yaml');
  writeFileSync(path, text);
  return path;
};
const slipway = (...args: string[]) => runCli(['replay', ...args], { server: server.url });

test('the sample matches the contract', () => {
  expect([...Value.Errors(ReplayReply, reply(pool()))]).toEqual([]);
});

describe('the command', () => {
  test('sends all documents unchanged, and the time of --since', async () => {
    const path = file('name: gpu\nbudgets: {provision_seconds: 900}\n---\nbrake: {fraction: 0.5}\n');
    const { code, stdout } = await slipway('--policy', path, '--since', '2026-01-01T00:00:00Z');
    expect(code).toBe(0);
    expect(stdout).toContain('3 of 342 decisions would differ');
    expect(stdout).not.toContain('slipway apply');
    expect(server.callsOf('policy-replay').map(({ body }) => body)).toEqual([
      {
        policy: [{ name: 'gpu', budgets: { provision_seconds: 900 } }, { brake: { fraction: 0.5 } }],
        since: '2026-01-01T00:00:00.000Z',
      },
    ]);
  });

  test('suggests the apply command for a complete policy', async () => {
    const path = file('{"name": "gpu", "driver": "external"}');
    expect((await slipway('--policy', path)).stdout).toContain(`slipway apply -f ${path}`);
  });

  test('prints the answer as the server sent it with --json', async () => {
    const { stdout } = await slipway('--policy', file('name: gpu'), '--json');
    expect(JSON.parse(stdout)).toEqual(reply(pool()));
  });

  test('refuses a missing or invalid file and sends nothing: exit 2', async () => {
    expect((await slipway()).code).toBe(2);
    expect(await slipway('--policy', join(directory, 'none'))).toMatchObject({ code: 2, stdout: '' });
    for (const text of ['name: [', '- gpu', '']) expect((await slipway('--policy', file(text))).code).toBe(2);
    expect(server.calls).toEqual([]);
  });

  test('prints the refusal of the server: exit 4', async () => {
    server.refuse('policy-replay', { code: 'pool_not_found', status: 404, detail: 'There is no pool named gpu.' });
    const { code, stderr } = await slipway('--policy', file('name: gpu'));
    expect({ code, stderr }).toMatchObject({ code: 4, stderr: expect.stringContaining('There is no pool named gpu.') });
  });
});

describe('the text', () => {
  test('shows the number of differences, each with its node, and what cannot be judged', () => {
    expect(render(reply(pool()))).toMatchInlineSnapshot(`
      "From 2025-12-02 00:00:00Z to 2026-01-01 01:00:00Z. Nothing was changed.

      ! gpu: 3 of 342 decisions would differ (340 boot phases, 2 absences recorded):
        – 1 boot not given up
        – 2 stuck boots found later by 4 min on average

        WHEN                  NODE    RULE                WAS     WOULD BE
        2026-01-01 00:12:00Z  node_1  provision-deadline  failed  starting 1m 20s later
          ↳ it registered after 800 s
        2026-01-01 00:12:00Z  node_2  provision-deadline  failed  failed 3m 00s later
          ↳ waited 900 s, budget of 900 s from pool (not certain)
        2026-01-01 00:12:00Z  node_3  provision-deadline  failed  failed 5m 00s later
          ↳ waited 900 s, budget of 900 s from pool (not certain)

        Could not be judged:
        – 4: Something else decided on these. (a, b, c, …)

        Look at one node:  timeline node_1"
    `);
  });

  test('says that no decision would differ, or that nothing is recorded', () => {
    const same = pool({ otherwise: 0, kinds: [], differences: [], untold: [] });
    expect(render(reply(same))).toContain('✔ gpu: no decision would differ (340 boot phases, 2 absences');
    expect(render(reply(pool({ ...same, decisions: 0 })))).toContain('· gpu: nothing is recorded.');
  });

  test('lists as many differences as --limit allows, and counts the others', () => {
    const text = render(reply(pool({ otherwise: 5000 })), { limit: 2 });
    expect(text).not.toContain('node_3');
    expect(text).toContain('… and 4998 more; see --limit, or --json');
  });

  test('puts harmful differences first and marks their pool', () => {
    const bad = difference({ kind: 'boot_lost', would_be: { verdict: 'held', at: null, reason: 'later' } });
    const kinds: ReplayedPool['kinds'] = [{ kind: 'boot_lost', count: 1 }];
    const differences = [stuck('node_2', '2026-01-01T00:15:00.000Z'), bad];
    const text = render(reply(pool({ otherwise: 2, kinds, differences })));
    expect(text).toContain('✖ gpu');
    expect(text.indexOf('node_1')).toBeLessThan(text.indexOf('node_2'));
    expect(text).toContain('1 boot that arrives too late to be rescued');
  });
});
