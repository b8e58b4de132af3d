import { describe, expect, test } from 'vitest';
import { type CheckedLayer, type CheckedNode, checkNode, checkPing, isPingOver, type PingedTask } from './checkup.ts';

const now = new Date('2030-01-01T00:01:00Z');
const ago = (seconds: number) => new Date(now.getTime() - seconds * 1000);
const firstFailure = (layers: CheckedLayer[]) => layers.find(({ ok }) => ok === false)?.code ?? null;

describe('a node', () => {
  const healthy: CheckedNode = {
    status: 'ready',
    node_instance_id: 'inst_1',
    registered_at: ago(60),
    fence_reason: null,
    verdict: null,
    last_seen_at: ago(1),
    stale_seconds: 5,
  };
  const neverSeen = { registered_at: null, last_seen_at: null };
  test.for<[Partial<CheckedNode>, string | null]>([
    [{}, null],
    [{ last_seen_at: ago(5) }, null],
    [{ last_seen_at: ago(5.1) }, 'heartbeat_stale'],
    [{ last_seen_at: null, registered_at: ago(1) }, null],
    [{ last_seen_at: null, stale_seconds: null, registered_at: ago(31) }, 'heartbeat_stale'],
    [{ status: 'quarantined', last_seen_at: ago(50) }, 'node_fenced'],
    [{ status: 'offline', last_seen_at: ago(50) }, 'heartbeat_stale'],
    [{ status: 'provisioning', ...neverSeen }, 'never_registered'],
    [{ status: 'provisioning', ...neverSeen, agentless: true }, null],
    [
      { status: 'failed', ...neverSeen, verdict: { rule: 'provision-deadline', reason: 'too late' } },
      'never_registered',
    ],
    [{ status: 'failed', ...neverSeen, verdict: { rule: 'provision-error', reason: 'setup_failed' } }, 'boot_failed'],
    [
      {
        status: 'failed',
        ...neverSeen,
        verdict: { rule: 'provision-deadline', reason: 'setup failed', certain: true },
      },
      'boot_failed',
    ],
    [{ status: 'cleaning', ...neverSeen }, 'node_fenced'],
    [{ status: 'retired', ...neverSeen }, 'node_retired'],
    [{ status: 'retired', last_seen_at: ago(50) }, 'node_retired'],
  ])('with %j fails first with %s', ([change, code]) => {
    expect(firstFailure(checkNode({ ...healthy, ...change }, now))).toBe(code);
  });
});

test('reports the reason and owner if a machine ended before it registered', () => {
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
  expect(heartbeat).toMatchObject({ ok: null, detail: 'no registration or heartbeat has ever arrived' });
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
  ])('with %j fails first with %s; has ended: %s', ([change, code, over]) => {
    const layers = checkPing({ ...task, ...change }, now);
    expect(firstFailure(layers)).toBe(code);
    expect(isPingOver(layers)).toBe(over);
  });
});
