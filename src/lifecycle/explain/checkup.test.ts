import { describe, expect, test } from 'vitest';
import { type CheckedLayer, type CheckedNode, checkNode, checkPing, isPingOver, type PingedTask } from './checkup.ts';

const now = new Date('2030-01-01T00:01:00Z');
const ago = (seconds: number) => new Date(now.getTime() - seconds * 1000);
const firstUnwell = (judged: CheckedLayer[]) => judged.find(({ ok }) => ok === false)?.code ?? null;

describe('a node', () => {
  const standing: CheckedNode = {
    status: 'ready',
    node_instance_id: 'inst_1',
    registered_at: ago(60),
    fence_reason: null,
    verdict: null,
    last_seen_at: ago(1),
    stale_seconds: 5,
  };
  const unheard = { registered_at: null, last_seen_at: null };
  test.for<[Partial<CheckedNode>, string | null]>([
    [{}, null],
    [{ last_seen_at: ago(5) }, null],
    [{ last_seen_at: ago(5.1) }, 'heartbeat_stale'],
    [{ last_seen_at: null, registered_at: ago(1) }, null],
    [{ last_seen_at: null, stale_seconds: null, registered_at: ago(31) }, 'heartbeat_stale'],
    [{ status: 'quarantined', last_seen_at: ago(50) }, 'node_fenced'],
    [{ status: 'offline', last_seen_at: ago(50) }, 'heartbeat_stale'],
    [{ status: 'provisioning', ...unheard }, 'never_registered'],
    [{ status: 'provisioning', ...unheard, agentless: true }, null],
    [{ status: 'failed', ...unheard, verdict: { rule: 'provision-deadline', reason: 'too late' } }, 'never_registered'],
    [{ status: 'failed', ...unheard, verdict: { rule: 'provision-error', reason: 'setup_failed' } }, 'boot_failed'],
    [
      { status: 'failed', ...unheard, verdict: { rule: 'provision-deadline', reason: 'setup failed', certain: true } },
      'boot_failed',
    ],
    [{ status: 'cleaning', ...unheard }, 'node_fenced'],
    [{ status: 'retired', ...unheard }, 'node_retired'],
    [{ status: 'retired', last_seen_at: ago(50) }, 'node_retired'],
  ])('%j: %s', ([change, code]) => {
    expect(firstUnwell(checkNode({ ...standing, ...change }, now))).toBe(code);
  });
});

test('reports a machine that ended before it registered with its reason and owner', () => {
  const dead: CheckedNode = {
    status: 'failed',
    node_instance_id: 'inst_1',
    registered_at: null,
    fence_reason: null,
    verdict: { rule: 'provision-error', reason: 'setup exited with code 7', owner: 'node' },
    last_seen_at: null,
    stale_seconds: null,
  };
  const [credential, , heartbeat] = checkNode(dead, now);
  expect(credential).toEqual({
    ...{ layer: 'credential', ok: false, code: 'boot_failed', owner: 'node' },
    detail: 'it ended before it registered: setup exited with code 7',
  });
  expect(heartbeat).toMatchObject({ ok: null, detail: 'never heard from' });
});

describe('a ping', () => {
  const task: PingedTask = { status: 'queued', leases: 0, expires_at: ago(-1), error: null, signed: false };
  const gaveUp = { code: 'task_given_up', message: 'the task expired before the node answered' };
  test.for<[Partial<PingedTask>, string | null, boolean]>([
    [{}, null, false],
    [{ status: 'leased', leases: 1 }, null, false],
    [{ expires_at: now }, 'task_unclaimed', true],
    [{ status: 'failed', error: gaveUp }, 'task_unclaimed', true],
    [{ status: 'leased', leases: 1, expires_at: now }, 'result_missing', true],
    [{ status: 'failed', leases: 2, error: gaveUp }, 'result_missing', true],
    [{ status: 'failed', leases: 1, error: { code: 'task_expired', message: 'its clock' } }, 'ping_refused', true],
    [{ status: 'succeeded', leases: 1 }, 'result_unsigned', true],
    [{ status: 'succeeded', leases: 1, signed: true, expires_at: ago(9) }, null, true],
  ])('%j: %s', ([change, code, over]) => {
    const judged = checkPing({ ...task, ...change }, now);
    expect(firstUnwell(judged)).toBe(code);
    expect(isPingOver(judged)).toBe(over);
  });
});
