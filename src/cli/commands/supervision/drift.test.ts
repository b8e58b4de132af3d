/** `slipway drift` and `slipway verify-store` against a scripted server. */
import { beforeEach, describe, expect, test } from 'vitest';
import { runCli } from '../../testing/run-cli.ts';
import { sampleIds, sampleNode } from '../../testing/samples.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';
import { sampleDecided, sampleExplanation, sampleFinding } from '../../testing/supervision-samples.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  server.nodes.set(sampleIds.node_id, sampleNode({ status: 'ready' }));
  return () => server.stop();
});
const slipway = (...args: string[]) => runCli(args, { server: server.url });

describe('drift', () => {
  test('lists open findings with our record and what was found', async () => {
    server.on('drift-list', () => ({ body: { items: [sampleFinding()], next_cursor: null } }));
    const { code, stdout } = await slipway('drift');
    expect(code).toBe(0);
    expect(stdout).toContain('find_1');
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(
      'our record: status ready, status_since 2026-01-01 12:02:00Z; found: state absent, driver local',
    );
    expect(server.callsOf('drift-list')[0]?.query).not.toHaveProperty('status');
  });
  test('says that there are no findings', async () => {
    server.on('drift-list', () => ({ body: { items: [], next_cursor: null } }));
    expect((await slipway('drift')).stdout).toBe('No open findings: our records match the machines.\n');
    expect((await slipway('drift', 'list', '--status', 'accepted')).stdout).toBe('No finding is accepted.\n');
    for (const filter of [
      ['--pool', 'p'],
      ['--kind', 'drift'],
    ])
      expect((await slipway('drift', 'list', ...filter)).stdout, filter[0]).toBe('No finding matches.\n');
  });
  test('repairs with a reason, and accepts as a dry run without one', async () => {
    server.on('drift-repair', () => ({ body: sampleDecided() }));
    server.on('drift-accept', () => ({ body: sampleDecided({ dry_run: true }) }));
    const done = await slipway('drift', 'repair', 'find_1', '--reason', 'the rack was sold');
    expect(done.stdout).toBe('✔ find_1 is repaired: the node is torn down with proof and retired\n');
    expect(server.callsOf('drift-repair')[0]).toMatchObject({
      params: { id: 'find_1' },
      body: { reason: 'the rack was sold' },
    });
    const predicted = await slipway('drift', 'accept', 'find_1', '--dry-run');
    expect(predicted.stdout).toMatch(/^○ Dry run: nothing was done\. accept find_1 would mean: /);
    expect(server.callsOf('drift-accept')[0]?.body).toEqual({ reason: expect.any(String), dry_run: true });
    expect((await slipway('drift', 'repair', 'find_1')).code).toBe(2);
    server.refuse('drift-repair', { code: 'action_illegal' });
    const { stderr } = await slipway('drift', 'repair', 'find_1', '--reason', 'x');
    expect(stderr).toMatch(/List the open ones: \S*slipway drift\n/);
  });
  test('verify-store reports differing rows, wrong counts and nodes left behind', async () => {
    const page = { compared: 500, untold: 0, items: [], next_cursor: 'nodes:node_9' };
    const difference = {
      subject: 'alloc_1',
      pool: 'p',
      ours: { status: 'active', name: 'a' },
      theirs: { status: 'failed', name: null },
    };
    const at = '2026-11-17T17:06:02.000Z';
    const empty = { items: [] as object[], unretired: [] as object[], miscounted: [] as object[] };
    let last = { compared: 3, untold: 1, ...empty, next_cursor: null };
    server.on('store-verify', ({ query }) => ({ body: query.cursor ? last : page }));
    server.on('key-list', () => ({ body: { installation: 'slipway-test', keys: [] } }));
    const unsealed = { rows: 0, oldest_at: null };
    server.on('evidence-verify', () => ({
      body: { checkpoints: [], rows: 0, items: [], more_faults: 0, cuts: [], unsealed, next_cursor: null },
    }));
    const intact = await slipway('verify-store');
    expect(intact).toMatchObject({
      code: 0,
      stdout: '502 rows match their evidence. 1 other row without evidence.\nNo evidence is sealed yet.\n',
    });
    expect(server.callsOf('store-verify').map(({ query }) => query.cursor)).toEqual([undefined, 'nodes:node_9']);
    last = { ...last, items: [difference] };
    const broken = await slipway('verify-store');
    expect(broken.code).toBe(1);
    const text = broken.stdout.replaceAll(/\s+/g, ' ');
    expect(text).toContain('row: status active, name a; evidence: status failed, name none');
    expect(text).toContain('1 row of 502 differs from its evidence.');
    last = {
      ...last,
      items: [],
      miscounted: [{ of: 'nodes', pool: 'p', zone: null, status: 'ready', counted: 4, there_are: 3 }],
    };
    const miscounted = await slipway('verify-store');
    expect(miscounted.code).toBe(1);
    expect(miscounted.stdout).toContain('The count of nodes ready in p is 4, but there are 3.');
    const ghost = { node_id: 'node_7', pool: 'p', status: 'quarantined', status_since: at, allocation_id: 'alloc_7' };
    last = { ...last, miscounted: [], unretired: [{ ...ghost, proof: 'absent', proven_at: at }] };
    const leftBehind = await slipway('verify-store');
    expect(leftBehind.code).toBe(1);
    expect(leftBehind.stdout).toContain(
      `node_7 in p is quarantined, but its machine was proven gone at ${at} (last held by alloc_7).`,
    );
    expect(leftBehind.stdout).toContain('The server retires them within two drift passes.');
    last = { ...last, items: [difference] };
    const { compared, differing } = JSON.parse((await slipway('verify-store', '--json')).stdout);
    expect({ compared, differing }).toEqual({ compared: 503, differing: [difference] });
  });
  test('explain shows the findings of a node', async () => {
    server.on('node-explain', () => ({ body: sampleExplanation({ findings: [sampleFinding()] }) }));
    const { stdout } = await slipway('explain', sampleIds.node_id);
    expect(stdout).toContain('! Found: its provider no longer shows the machine');
    expect(stdout).toMatch(/slipway drift repair find_1 --reason "…" --dry-run/);
  });
});
