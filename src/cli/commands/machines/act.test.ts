/** `slipway actions` and `slipway act` on nodes and allocations. */
import { beforeEach, describe, expect, test } from 'vitest';
import { runCli } from '../../testing/run-cli.ts';
import { sampleAllocation, sampleIds, sampleNode, sampleOperation } from '../../testing/samples.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';
import {
  sampleActed,
  sampleAllocationActed,
  sampleExplanation,
  sampleHeld,
} from '../../testing/supervision-samples.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  server.nodes.set(sampleIds.node_id, sampleNode({ status: 'offline', name: 'gpu-3' }));
  server.on('node-actions', () => ({ body: { items: sampleExplanation().actions } }));
  server.on('node-act', () => ({ body: sampleActed() }));
  return () => server.stop();
});
const slipway = (...args: string[]) => runCli(args, { server: server.url });

describe('on a node', () => {
  test('lists available actions with their command, and the others with the reason', async () => {
    const { stdout } = await slipway('actions', sampleIds.node_id);
    expect(stdout).toMatch(
      /^Available now\n {2}Gives it more time:\n {4}\S*slipway act .* --reason "…"\n\nNot available now\n/,
    );
    expect(stdout).toContain('  apply-held-verdict  lets the held verdict go. No verdict is held.\n');
  });
  test('names the actions command when an action is not available', async () => {
    server.refuse('node-act', { code: 'action_illegal' });
    const { code, stderr } = await slipway('act', sampleIds.node_id, 'drain', '--reason', 'x');
    expect(code).toBe(4);
    expect(stderr).toMatch(
      new RegExp(`What to do: See which actions are available now.*slipway\\s+actions\\s+${sampleIds.node_id}`, 's'),
    );
  });
  test('names an invalid field by its flag, or by its path if it has no flag', async () => {
    const errors = [
      { path: '/body/seconds', message: 'is required' },
      { path: '/body/drain_then', message: 'is odd' },
      { path: '/body/zone', message: 'is unknown' },
    ];
    const detail = '/body/seconds: is required';
    server.refuse('node-act', { code: 'invalid_request', detail, errors });
    const { stderr } = await slipway('act', sampleIds.node_id, 'extend-deadline', '--reason', 'x');
    expect(stderr).toContain('  --seconds: is required\n');
    expect(stderr).toContain('  --then: is odd\n');
    expect(stderr).toContain('  /body/zone: is unknown\n');
  });
  test('sends an action with its reason, once', async () => {
    const args = ['extend-deadline', '--seconds', '10m', '--reason', 'a large image'];
    const { code, stdout } = await slipway('act', sampleIds.node_id, ...args);
    expect(code).toBe(0);
    expect(stdout).toContain(`✔ extend-deadline on ${sampleIds.node_id}: its deadline moves to 2026-01-01 12:50:00Z\n`);
    const [call, again] = server.callsOf('node-act');
    expect(call).toMatchObject({
      params: { id: sampleIds.node_id, action: 'extend-deadline' },
      body: { reason: 'a large image', seconds: 600 },
    });
    expect(call?.body).not.toHaveProperty('dry_run');
    expect(call?.headers['idempotency-key']).toBeTruthy();
    expect(again).toBeUndefined();
  });
  test('sends the fingerprint of the key to accept', async () => {
    const fingerprint = '0123456789abcdef';
    const args = ['accept-key', '--fingerprint', fingerprint, '--reason', 'its disk was lost'];
    expect((await slipway('act', sampleIds.node_id, ...args)).code).toBe(0);
    expect(server.callsOf('node-act')[0]?.body).toEqual({ reason: 'its disk was lost', fingerprint });
  });
  test('prints the effect of a dry run', async () => {
    const predicts = { status: 'offline', deadline_at: null, says: 'liveness takes effect: ready → offline' } as const;
    const node = sampleNode({ status: 'ready', held: sampleHeld() });
    server.on('node-act', () => ({ body: sampleActed({ dry_run: true, node, predicts }) }));
    const { stdout } = await slipway('act', sampleIds.node_id, 'apply-held-verdict', '--dry-run');
    expect(stdout).toMatch(
      /^○ Dry run: nothing was done\. apply-held-verdict on \S+ would mean: liveness takes effect/,
    );
    expect(stdout).toContain('status  ready → offline');
    expect(server.callsOf('node-act')[0]?.body).toEqual({ reason: expect.any(String), dry_run: true });
  });
  test('requires a reason except for a dry run: exit 2', async () => {
    const act = (...more: string[]) => slipway('act', sampleIds.node_id, 'retire', ...more);
    expect((await act('--dry-run', '--reason', 'burned')).code).toBe(0);
    expect(server.callsOf('node-act')[0]?.body).toEqual({ reason: 'burned', dry_run: true });
    const without = await act();
    expect(without).toMatchObject({ code: 2, stderr: expect.stringContaining("'-r, --reason <text>' not specified") });
    expect(server.callsOf('node-act')).toHaveLength(1);
  });
  test('prints the token and the command to enrol a machine again', async () => {
    server.on('node-act', () => ({ body: sampleActed({ enrollment_token: 'swe_once' }) }));
    const { stdout } = await slipway('act', sampleIds.node_id, 're-enroll', '-r', 'a new disk');
    expect(stdout).toMatch(/\nStart the agent on the machine again, .* It is not shown again\.\n/);
    expect(stdout).toContain(`\n  SLIPWAY_ENROLLMENT_TOKEN=swe_once slipway agent --server ${server.url}\n`);
    const json = await slipway('act', sampleIds.node_id, 're-enroll', '-r', 'a new disk', '--json');
    expect(JSON.parse(json.stdout).enrollment_token).toBe('swe_once');
  });
  test('prints why the server refuses an action: exit 4', async () => {
    server.refuse('node-act', { code: 'action_illegal', detail: 'No verdict is held.' });
    const { code, stderr } = await slipway('act', sampleIds.node_id, 'apply-held-verdict', '-r', 'x');
    expect(code).toBe(4);
    expect(stderr).toContain('No verdict is held.');
  });
});

describe('on an allocation', () => {
  const { allocation_id, node_id, workflow_id } = sampleIds;
  beforeEach(() => {
    server.allocations.set(allocation_id, sampleAllocation({ status: 'release_failed' }));
    server.on('allocation-actions', () => ({
      body: {
        items: [
          { action: 'retry-release', does: 'retries the failed release now', open: true, why_not: null },
          { action: 'retry', does: 'tries again', open: false, why_not: 'It is release_failed; this needs failed.' },
        ],
      },
    }));
    server.on('allocation-act', () => ({ body: sampleAllocationActed({ operation: sampleOperation() }) }));
  });

  test('lists the actions of the allocation and names the command for those of its machine', async () => {
    const { code, stdout } = await slipway('actions', allocation_id);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      new RegExp(`Retries the failed release now:\\n {4}\\S*slipway act ${allocation_id} retry-release --reason`),
    );
    expect(stdout).toContain('  retry  tries again. It is release_failed; this needs failed.\n');
    expect(stdout).toMatch(new RegExp(`slipway actions ${node_id}\\n$`));
    expect(server.callsOf('node-actions')).toEqual([]);
  });
  test('lists the actions of an allocation without a machine', async () => {
    server.allocations.set(allocation_id, sampleAllocation({ status: 'requested', node_id: null }));
    const { code, stdout } = await slipway('actions', allocation_id);
    expect(code).toBe(0);
    expect(stdout).not.toContain('its machine');
  });
  test('runs an action of the allocation and names its operation', async () => {
    const { code, stdout } = await slipway('act', allocation_id, 'retry-release', '-r', 'the disk is back');
    expect(code).toBe(0);
    expect(stdout).toContain(`✔ retry-release on ${allocation_id}: its release is tried again, now\n`);
    expect(stdout).toContain(`slipway watch ${workflow_id}\n`);
    const [call] = server.callsOf('allocation-act');
    expect(call).toMatchObject({
      params: { id: allocation_id, action: 'retry-release' },
      body: { reason: 'the disk is back' },
    });
    expect(call?.headers['idempotency-key']).toBeTruthy();
    expect(server.callsOf('node-act')).toEqual([]);
  });
  test('runs a machine action on the machine of the allocation', async () => {
    await slipway('act', allocation_id, 'drain', '--then', 'retire', '-r', 'worn');
    expect(server.callsOf('node-act')).toMatchObject([
      { params: { id: node_id, action: 'drain' }, body: { reason: 'worn', drain_then: 'retire' } },
    ]);
    expect(server.callsOf('allocation-act')).toEqual([]);
  });
  test('refuses an allocation action on a node', async () => {
    const { code, stderr } = await slipway('act', node_id, 'release', '-r', 'x');
    expect(code).toBe(2);
    expect(stderr).toMatch(/release is an action on allocations, but \S+ is not an allocation\n.*slipway actions/);
    expect(server.calls).toEqual([]);
  });
  test('the allocation command lists the actions too', async () => {
    const { stdout } = await slipway('allocation', allocation_id);
    expect(stdout).toMatch(
      new RegExp(
        `What you can do\\n {2}Retries .*:\\n {4}\\S*slipway act ${allocation_id} retry-release --reason "…"\\n`,
      ),
    );
    await slipway('allocation', allocation_id, '--json');
    expect(server.callsOf('allocation-actions')).toHaveLength(1);
  });
});

test.each([
  [['node_1', 'extend-deadline'], "required option '-r, --reason <text>'"],
  [['node_1', 'explode', '-r', 'x'], "value 'explode' is invalid"],
  [['node_1', 'extend'], "value 'extend' is invalid for argument 'action'"],
  [['node_1'], "missing required argument 'action'"],
  [['node_1', 'extend-deadline', '--secs', '600'], "unknown option '--secs'"],
])('refuses act %j and sends nothing', async (args, message) => {
  const { code, stderr } = await slipway('act', ...args);
  expect(code).toBe(2);
  expect(stderr).toContain(message);
  expect(server.calls).toEqual([]);
});
