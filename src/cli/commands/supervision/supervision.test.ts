/** Explaining, acting, the brake, maintenance and sweeps, as a program meets the commands. */
import { beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../../base/clock.ts';
import { runCli } from '../../testing/run-cli.ts';
import {
  sampleAllocation,
  sampleIds,
  sampleNode,
  sampleOperation,
  samplePool,
  sampleProgress,
} from '../../testing/samples.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';
import {
  sampleActed,
  sampleAllocationActed,
  sampleBrake,
  sampleExplanation,
  sampleHeld,
  sampleHold,
  sampleSweep,
  sampleWindow,
} from '../../testing/supervision-samples.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  server.nodes.set(sampleIds.node_id, sampleNode({ status: 'offline', name: 'gpu-3' }));
  server.on('node-explain', () => ({ body: sampleExplanation() }));
  server.on('node-actions', () => ({ body: { items: sampleExplanation().actions } }));
  server.on('node-act', () => ({ body: sampleActed() }));
  return () => server.stop();
});
const slipway = (...args: string[]) => runCli(args, { server: server.url });

describe('explain', () => {
  test('a node', async () => {
    const { code, stdout } = await slipway('explain', sampleIds.node_id);
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^${sampleIds.node_id}  gpu-3  offline for \\d+d\\n  Silent; it may come back`));
    expect(stdout).toMatch(new RegExp(`slipway act ${sampleIds.node_id} extend-deadline --seconds 10m --reason "…"`));
  });
  test('an allocation whose machine is gone, with what is open of it', async () => {
    server.allocations.set(sampleIds.allocation_id, sampleAllocation({ status: 'failed' }));
    server.nodes.set(sampleIds.node_id, sampleNode({ status: 'retired' }));
    const retry = { action: 'retry', does: 'tries again', open: true, why_not: null } as const;
    server.on('allocation-actions', () => ({ body: { items: [retry] } }));
    const { stdout } = await slipway('explain', sampleIds.allocation_id);
    expect(stdout).toMatch(/about the allocation\n.*\n.*slipway act alloc_\S+ retry --reason/);
    expect((await slipway('explain', sampleIds.node_id)).stdout).not.toContain('about the allocation');
  });
  test('the machine behind an allocation or an operation, which is told first', async () => {
    server.allocations.set(sampleIds.allocation_id, sampleAllocation({ status: 'failed', reason: 'its node failed' }));
    server.operations.set(sampleIds.workflow_id, sampleOperation());
    const { stdout } = await slipway('explain', sampleIds.allocation_id);
    expect(stdout).toMatch(
      new RegExp(
        `^${sampleIds.allocation_id} is failed: its node failed\\nIts machine is ${sampleIds.node_id}:\\n\\n${sampleIds.node_id}`,
      ),
    );
    expect((await slipway('explain', sampleIds.workflow_id)).stdout).toContain(`${sampleIds.workflow_id} is running\n`);
    expect(server.callsOf('node-explain').map(({ params }) => params.id)).toEqual([
      sampleIds.node_id,
      sampleIds.node_id,
    ]);
  });
  test('--json is the explanation itself', async () => {
    const { stdout } = await slipway('explain', sampleIds.node_id, '--json');
    expect(JSON.parse(stdout)).toEqual(sampleExplanation());
  });
  describe('without a machine', () => {
    const waiting = sampleAllocation({
      status: 'requested',
      node_id: null,
      progress: sampleProgress({ message: 'Waiting for a free machine in the pool, behind 2 others' }),
    });
    beforeEach(() => {
      server.allocations.set(sampleIds.allocation_id, waiting);
      server.operations.set(sampleIds.workflow_id, sampleOperation({ node_id: null }));
      server.on('pool-get', () => ({ body: samplePool({ driver: 'external', nodes: { live: 1, free: 0 } }) }));
      const items = [{ pool: 'local', zone: null, status: 'ready', nodes: 1, held: 0 }];
      server.on('fleet-count', () => ({ body: { items } }));
      const release = { action: 'release', does: 'gives it back', open: true, why_not: null };
      server.on('allocation-actions', () => ({ body: { items: [release] } }));
    });
    test.for(['allocation_id', 'workflow_id'] as const)(
      'an allocation that waits says for what, by its %s',
      async (by) => {
        const { code, stdout, stderr } = await slipway('explain', sampleIds[by]);
        expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
        const text = stdout.replaceAll(/\s+/g, ' ');
        expect(text).toContain('Now: Waiting for a free machine in the pool, behind 2 others.');
        expect(text).toContain('Pool local has 1 machine: 1 is held by other allocations.');
        expect(stdout).toMatch(/slipway join-token create local\n/);
        expect(stdout).toMatch(/slipway act alloc_\S+ release --reason/);
      },
    );
    test('a tenant hears what it may, and --json is the allocation', async () => {
      server.refuse('pool-get', { code: 'scope_insufficient', status: 403 });
      const { code, stdout } = await slipway('explain', sampleIds.allocation_id);
      expect(code).toBe(0);
      expect(stdout).toContain('Now: Waiting for a free machine');
      expect(JSON.parse((await slipway('explain', sampleIds.allocation_id, '--json')).stdout)).toEqual(waiting);
    });
    test('what went wrong otherwise is told as such', async () => {
      server.refuse('fleet-count', { code: 'internal', status: 500 });
      expect((await slipway('explain', sampleIds.allocation_id)).code).not.toBe(0);
    });
    test('one that ended before it had one says what became of it', async () => {
      server.on('timeline-get', () => ({ body: { items: [], next_cursor: null } }));
      server.allocations.set(sampleIds.allocation_id, { ...waiting, status: 'failed', reason: 'no machine in time' });
      const { code, stdout } = await slipway('explain', sampleIds.allocation_id);
      expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining('no machine in time') });
    });
    test('an operation of nobody without one has nothing to explain: exit 1', async () => {
      server.operations.set(sampleIds.workflow_id, sampleOperation({ node_id: null, allocation_id: null }));
      const { code, stdout, stderr } = await slipway('explain', sampleIds.workflow_id);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toMatch(
        /has no machine yet, so there is nothing to explain\n {2}It is running\.\n.*slipway watch/,
      );
    });
  });
  test('an unknown id is refused: exit 4', async () => {
    server.refuse('node-explain', { code: 'node_not_found', status: 404, title: 'There is no such node' });
    const { code, stderr } = await slipway('explain', 'node_nope');
    expect(code).toBe(4);
    expect(stderr).toMatch(/There is no such node\n.*\n.*slipway nodes --all/);
  });
});

describe('actions and act', () => {
  test('what is open with its command, what is not with its reason', async () => {
    const { stdout } = await slipway('actions', sampleIds.node_id);
    expect(stdout).toMatch(/^Open now\n {2}Gives it more time:\n {4}\S*slipway act .* --reason "…"\n\nNot now\n/);
    expect(stdout).toContain('  apply-held-verdict  lets the held verdict go. No verdict is held back.\n');
  });
  test('one that is not open names the command that says what is', async () => {
    server.refuse('node-act', { code: 'action_illegal', status: 409, title: 'That is not open now' });
    const { code, stderr } = await slipway('act', sampleIds.node_id, 'drain', '--reason', 'x');
    expect(code).toBe(4);
    expect(stderr).toMatch(
      new RegExp(`What to do: See what is open now.*slipway\\s+actions\\s+${sampleIds.node_id}`, 's'),
    );
  });
  test('a field that is wrong is named by its flag, and by its path where there is none', async () => {
    const errors = [
      { path: '/body/seconds', message: 'is required' },
      { path: '/body/drain_then', message: 'is odd' },
      { path: '/body/zone', message: 'is unknown' },
    ];
    const detail = '/body/seconds: is required';
    server.refuse('node-act', { code: 'invalid_request', status: 400, title: 'Invalid', detail, errors });
    const { stderr } = await slipway('act', sampleIds.node_id, 'extend-deadline', '--reason', 'x');
    expect(stderr).toContain('  --seconds: is required\n');
    expect(stderr).toContain('  --then: is odd\n');
    expect(stderr).toContain('  /body/zone: is unknown\n');
  });
  test('an action with its reason, once', async () => {
    const args = ['extend-deadline', '--seconds', '10m', '--reason', 'a large image'];
    const { code, stdout } = await slipway('act', sampleIds.node_id, ...args);
    expect(code).toBe(0);
    expect(stdout).toContain(`✔ extend-deadline on ${sampleIds.node_id}: it has until 2026-01-01 12:50:00Z\n`);
    const [call, again] = server.callsOf('node-act');
    expect(call).toMatchObject({
      params: { id: sampleIds.node_id, action: 'extend-deadline' },
      body: { reason: 'a large image', seconds: 600 },
    });
    expect(call?.body).not.toHaveProperty('dry_run');
    expect(call?.headers['idempotency-key']).toBeTruthy();
    expect(again).toBeUndefined();
  });
  test('a key is accepted by the fingerprint that was given, and by no other', async () => {
    const fingerprint = '0123456789abcdef';
    const args = ['accept-key', '--fingerprint', fingerprint, '--reason', 'its disk was lost'];
    expect((await slipway('act', sampleIds.node_id, ...args)).code).toBe(0);
    expect(server.callsOf('node-act')[0]?.body).toEqual({ reason: 'its disk was lost', fingerprint });
  });
  test('a dry run says that nothing was done', async () => {
    const predicts = { status: 'offline', deadline_at: null, says: 'liveness takes effect: ready → offline' } as const;
    const node = sampleNode({ status: 'ready', held: sampleHeld() });
    server.on('node-act', () => ({ body: sampleActed({ dry_run: true, node, predicts }) }));
    const { stdout } = await slipway('act', sampleIds.node_id, 'apply-held-verdict', '--dry-run');
    expect(stdout).toMatch(/^○ Nothing was done\. apply-held-verdict on \S+ would mean: liveness takes effect/);
    expect(stdout).toContain('status  ready → offline');
    expect(server.callsOf('node-act')[0]?.body).toEqual({ reason: expect.any(String), dry_run: true });
  });
  test('a dry run needs no reason, keeps one that is given, and nothing is done without one: exit 2', async () => {
    const act = (...more: string[]) => slipway('act', sampleIds.node_id, 'retire', ...more);
    expect((await act('--dry-run', '--reason', 'burned')).code).toBe(0);
    expect(server.callsOf('node-act')[0]?.body).toEqual({ reason: 'burned', dry_run: true });
    const without = await act();
    expect(without).toMatchObject({ code: 2, stderr: expect.stringContaining("'-r, --reason <text>' not specified") });
    expect(server.callsOf('node-act')).toHaveLength(1);
  });
  test('a machine that enrols again: its token and the line to start its agent with', async () => {
    server.on('node-act', () => ({ body: sampleActed({ enrollment_token: 'swe_once' }) }));
    const { stdout } = await slipway('act', sampleIds.node_id, 're-enroll', '-r', 'a new disk');
    expect(stdout).toMatch(/\nStart its agent on the machine, .* It is not shown again\.\n/);
    expect(stdout).toContain(`\n  SLIPWAY_ENROLLMENT_TOKEN=swe_once slipway agent --server ${server.url}\n`);
    const json = await slipway('act', sampleIds.node_id, 're-enroll', '-r', 'a new disk', '--json');
    expect(JSON.parse(json.stdout).enrollment_token).toBe('swe_once');
  });
  test('what is not open is refused: exit 4', async () => {
    const refusal = { code: 'action_illegal', status: 409, title: 'That cannot be done in this state' };
    server.refuse('node-act', { ...refusal, detail: 'No verdict is held back.' });
    const { code, stderr } = await slipway('act', sampleIds.node_id, 'apply-held-verdict', '-r', 'x');
    expect(code).toBe(4);
    expect(stderr).toContain('No verdict is held back.');
  });
});

describe('actions and act on an allocation', () => {
  const { allocation_id, node_id, workflow_id } = sampleIds;
  beforeEach(() => {
    server.allocations.set(allocation_id, sampleAllocation({ status: 'release_failed' }));
    server.on('allocation-actions', () => ({
      body: {
        items: [
          { action: 'retry-release', does: 'tries the failed release again, now', open: true, why_not: null },
          { action: 'retry', does: 'tries again', open: false, why_not: 'It is release_failed; this needs failed.' },
        ],
      },
    }));
    server.on('allocation-act', () => ({ body: sampleAllocationActed({ operation: sampleOperation() }) }));
  });

  test('what is open is its own, with the way to what its machine takes', async () => {
    const { code, stdout } = await slipway('actions', allocation_id);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      new RegExp(`Tries the failed release again, now:\\n {4}\\S*slipway act ${allocation_id} retry-release --reason`),
    );
    expect(stdout).toContain('  retry  tries again. It is release_failed; this needs failed.\n');
    expect(stdout).toMatch(new RegExp(`slipway actions ${node_id}\\n$`));
    expect(server.callsOf('node-actions')).toEqual([]);
  });
  test('one whose machine never was has its actions all the same', async () => {
    server.allocations.set(allocation_id, sampleAllocation({ status: 'requested', node_id: null }));
    const { code, stdout } = await slipway('actions', allocation_id);
    expect(code).toBe(0);
    expect(stdout).not.toContain('its machine');
  });
  test('an action that it has is done to it, and its operation can be followed', async () => {
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
  test('an action that only machines have is done to its machine', async () => {
    await slipway('act', allocation_id, 'drain', '--then', 'retire', '-r', 'worn');
    expect(server.callsOf('node-act')).toMatchObject([
      { params: { id: node_id, action: 'drain' }, body: { reason: 'worn', drain_then: 'retire' } },
    ]);
    expect(server.callsOf('allocation-act')).toEqual([]);
  });
  test('an action that machines do not have is a usage error', async () => {
    const { code, stderr } = await slipway('act', node_id, 'release', '-r', 'x');
    expect(code).toBe(2);
    expect(stderr).toMatch(/release is for allocations, and \S+ is none\n.*slipway actions/);
    expect(server.calls).toEqual([]);
  });
  test('one allocation in full says what can be done about it', async () => {
    const { stdout } = await slipway('allocation', allocation_id);
    expect(stdout).toMatch(
      new RegExp(
        `What you can do\\n {2}Tries .*:\\n {4}\\S*slipway act ${allocation_id} retry-release --reason "…"\\n`,
      ),
    );
    await slipway('allocation', allocation_id, '--json');
    expect(server.callsOf('allocation-actions')).toHaveLength(1);
  });
});

describe('recover', () => {
  const recovery = { dry_run: false, matched: 0, eligible: 0, not_eligible: [], first: [], operation: null };
  const flags = [
    '--pool',
    'gpu',
    '--label',
    'rack=7',
    '--older-than',
    '10m',
    '--per-minute',
    '30',
    '-r',
    'disk is free',
  ];
  test('asks for the usual way back from a status, with its filter and its pace', async () => {
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
  test('a dry run says how many there are and which go first', async () => {
    const preview = { ...recovery, dry_run: true, matched: 12, eligible: 12, first: ['alloc_1', 'alloc_2'] };
    server.on('fleet-recover', () => ({ status: 202, body: preview }));
    const { stdout } = await slipway('recover', '--status', 'release_failed', '--dry-run');
    expect(stdout).toContain('Would recover 12: tries failed releases again; nothing was changed');
    expect(stdout).toContain('alloc_1 · alloc_2 · and 10 more');
  });
  test('says which are passed over and why, and that nothing was started where that is all of them', async () => {
    const not_eligible = [
      { why_not: 'An allocation is served by it; release that first.', count: 3, first: ['node_1'] },
    ];
    const some = { ...recovery, dry_run: true, matched: 5, eligible: 2, first: ['node_4', 'node_5'], not_eligible };
    server.on('fleet-recover', () => ({ status: 202, body: some }));
    const asked = ['recover', '--action', 'retire', '--pool', 'gpu', '-r', 'x'];
    const { stdout } = await slipway(...asked, '--dry-run');
    expect(stdout).toContain('Would recover 2 of 5: takes machines down for good; nothing was changed');
    expect(stdout).toContain('  node_4 · node_5\n');
    expect(stdout).toContain('  3 are passed over: An allocation is served by it; release that first.\n');
    expect(stdout).toContain('    node_1 · and 2 more\n');
    server.on('fleet-recover', () => ({ status: 202, body: { ...some, eligible: 0, first: [] } }));
    expect(await slipway(...asked)).toMatchObject({
      code: 4,
      stdout: expect.stringContaining('Nothing was started: retire is open to none of the 5 that fit'),
    });
  });
  test('without a status that has a way back it wants to know what to do: exit 2', async () => {
    expect((await slipway('recover', '--status', 'ready', '--pool', 'gpu', '-r', 'x')).code).toBe(2);
  });
});

describe('brake', () => {
  test('shows holds, and resumes one or all with a reason', async () => {
    server.on('brake-get', () => ({ body: sampleBrake({ holding: true, holds: [sampleHold()] }) }));
    server.on('brake-resume', () => ({ body: sampleBrake() }));
    expect((await slipway('brake')).stdout).toContain('! liveness in pool fleet');
    expect(JSON.parse((await slipway('brake', '--json')).stdout).holds).toHaveLength(1);
    const one = await slipway('brake', 'resume', '--hold', 'hold_1', '--reason', 'really gone');
    expect(one).toMatchObject({ code: 0, stdout: '✔ hold_1 is let go; the rules decide again within seconds\n' });
    await slipway('brake', 'resume', '--reason', 'all of it');
    expect(server.callsOf('brake-resume').map(({ body }) => body)).toEqual([
      { reason: 'really gone', hold_id: 'hold_1' },
      { reason: 'all of it' },
    ]);
  });
  test('a hold that is over is refused with the way to see what is', async () => {
    server.refuse('brake-resume', { code: 'hold_not_found', status: 404, title: 'There is no such hold' });
    const { code, stderr } = await slipway('brake', 'resume', '--hold', 'hold_0', '--reason', 'x');
    expect(code).toBe(4);
    expect(stderr).toMatch(/See what is held: \S*slipway brake\n/);
  });
});

describe('maintenance', () => {
  test('lists windows, and says when there are none', async () => {
    server.on('maintenance-list', () => ({ body: { items: [], next_cursor: null } }));
    expect((await slipway('maintenance')).stdout).toContain('No maintenance window is open or planned');
    server.on('maintenance-list', () => ({ body: { items: [sampleWindow()], next_cursor: null } }));
    expect((await slipway('maintenance')).stdout).toMatch(
      /^switch +zone eu-1, rack=7 +open, ends in .* +ops +a new switch$/m,
    );
  });
  test('starts one for so long, for all that is named', async () => {
    server.on('maintenance-put', () => ({ body: sampleWindow() }));
    const before = systemClock.nowMs();
    const { code, stdout } = await slipway(
      ...[
        'maintenance',
        'start',
        'switch',
        '--zone',
        'eu-1',
        '--label',
        'rack=7',
        '--for',
        '45m',
        '-r',
        'a new switch',
      ],
    );
    expect(code).toBe(0);
    expect(stdout).toMatch(/✔ switch: nobody of zone eu-1, rack=7 is given up until .*\n.*maintenance end switch\n/);
    const [call] = server.callsOf('maintenance-put');
    expect(call).toMatchObject({
      params: { name: 'switch' },
      body: { zone: 'eu-1', labels: { rack: '7' }, reason: 'a new switch' },
    });
    const seconds = (Date.parse(Object(call?.body).ends_at) - before) / 1000;
    expect(seconds).toBeGreaterThanOrEqual(45 * 60);
    expect(seconds).toBeLessThanOrEqual(45 * 60 + (systemClock.nowMs() - before) / 1000);
  });
  test('starts one at a moment until another', async () => {
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
  test('ends one by its name', async () => {
    server.on('maintenance-delete', () => ({ status: 204, body: '' }));
    expect((await slipway('maintenance', 'end', 'switch')).stdout).toContain('✔ switch is over');
    expect(server.callsOf('maintenance-delete')[0]?.params).toEqual({ name: 'switch' });
  });
});

test.each([
  [['maintenance', 'start', 'x', '--for', '1h', '--reason', 'y'], 'must say which machines'],
  [['maintenance', 'start', 'x', '--pool', 'p', '--reason', 'y'], 'needs an end'],
  [['maintenance', 'start', 'x', '--pool', 'p', '--until', '2027-01-31T14:00', '--reason', 'y'], 'with its zone'],
  [['maintenance', 'start', 'x', '--pool', 'p', '--for', '1h'], "required option '-r, --reason <text>'"],
  [['brake', 'resume'], "required option '-r, --reason <text>'"],
  [['act', 'node_1', 'extend-deadline'], "required option '-r, --reason <text>'"],
  [['act', 'node_1', 'explode', '-r', 'x'], "value 'explode' is invalid"],
])('%j is a usage error, and nothing is sent', async (args, message) => {
  const { code, stderr } = await slipway(...args);
  expect(code).toBe(2);
  expect(stderr).toContain(message);
  expect(server.calls).toEqual([]);
});

test('sweeps: when each ran, how late, what it did, and what is wrong with it', async () => {
  const broken = sampleSweep({ name: 'orphans', error: 'deadlock', failed_at: '2026-01-01T12:00:00.000Z', held: 0 });
  server.on('sweep-list', () => ({ body: { replica_id: 'rep_1', items: [sampleSweep(), broken] } }));
  const { stdout } = await slipway('sweeps');
  expect(stdout).toMatch(/^liveness +\d+d ago +4 ms +0\.8s +3 +8 +120$/m);
  expect(stdout).toMatch(/^orphans .* failed \d+d ago: deadlock$/m);
});

test('nodes --held asks for the held, and each says what would become of it', async () => {
  server.nodes.set(sampleIds.node_id, sampleNode({ held: sampleHeld() }));
  const { stdout } = await slipway('nodes', '--held', '--status', 'ready');
  expect(server.callsOf('node-list')[0]?.query).toMatchObject({ held: 'true', status: 'ready' });
  expect(stdout).toContain('held, would be offline: 8 of 12 machines in pool fleet would be given up within 60 s');
});

test('one node in full says what is held, what would have been, and what it waits for', async () => {
  const would_have = { rule: 'liveness', to: 'offline', reason: 'silent for 42 s', at: '2026-01-01T12:00:00.000Z' };
  server.nodes.set(sampleIds.node_id, sampleNode({ held: sampleHeld(), would_have, waiting_for: 'capacity' }));
  const { stdout } = await slipway('node', sampleIds.node_id);
  expect(stdout).toMatch(
    /held +would be offline, but too many machines turned bad at once: .*; held until .* \[liveness\]/,
  );
  expect(stdout).toMatch(
    /would have +been offline, but its pool is only observed: silent for 42 s {2}\[liveness, \d+d ago\]/,
  );
  expect(stdout).toMatch(/waits for +capacity/);
});
