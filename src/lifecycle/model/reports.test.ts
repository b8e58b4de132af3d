import { describe, expect, test } from 'vitest';
import {
  type Beat,
  effectOfBeat,
  mayBeReady,
  type Prerequisites,
  type ReportingNode,
  reportedStatuses,
} from './reports.ts';
import type { NodeStatus } from './states.ts';

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000);
const now = at(0);
const stale = 30;

const nodeIn = (status: NodeStatus, overrides: Partial<ReportingNode> = {}): ReportingNode => ({
  status,
  status_since: at(-1000),
  deadline_at: null,
  registered_at: at(-2000),
  reported_status: 'starting',
  verdict: null,
  prerequisites: null,
  stale_seconds: stale,
  ...overrides,
});

/** The effect as `status by cause`, or `nothing`. */
function effect(node: ReportingNode, beat: Beat = {}): string {
  const change = effectOfBeat(node, beat, now);
  return change ? `${change.to} by ${change.by}` : 'nothing';
}
const reasonOf = (node: ReportingNode, beat: Beat = {}) => effectOfBeat(node, beat, now)?.reason;

describe('a starting node', () => {
  test('is ready as soon as it reports ready', () => {
    expect(effect(nodeIn('starting'), { status: 'ready' })).toBe('ready by claim-ready');
    expect(reasonOf(nodeIn('starting'), { status: 'ready' })).toBe('the node reported ready');
  });

  test.for<Beat>([{}, { status: 'starting' }, { status: 'degraded' }, { status: 'stopping' }, { error_rate: 1 }])(
    'stays starting after %o',
    (beat) => {
      expect(effect(nodeIn('starting'), beat)).toBe('nothing');
    },
  );

  test.for<[Prerequisites, boolean]>([
    [null, true],
    ['met', true],
    ['unchecked', false],
    ['missing', false],
  ])('with prerequisites %s may be ready: %s', ([prerequisites, may]) => {
    expect(mayBeReady(prerequisites)).toBe(may);
    const result = effect(nodeIn('starting', { prerequisites }), { status: 'ready' });
    expect(result).toBe(may ? 'ready by claim-ready' : 'nothing');
  });
});

describe('a failed node', () => {
  const failed = (overrides: Partial<ReportingNode> = {}) =>
    nodeIn('failed', { deadline_at: at(1), status_since: at(-4), ...overrides });

  test.for<Beat>([{}, { status: 'starting' }, { status: 'ready' }, { status: 'degraded' }])(
    'is rescued by a heartbeat inside its window: %o',
    (beat) => {
      expect(effect(failed(), beat)).toBe('starting by late-registration');
    },
  );

  test('is rescued with a reason that says how late it was', () => {
    expect(reasonOf(failed())).toBe('its heartbeats resumed 4.0 s after it failed');
  });

  test('is rescued until the end of its window', () => {
    expect(effect(failed({ deadline_at: now }))).toBe('starting by late-registration');
    expect(effect(failed({ deadline_at: at(-0.001) }))).toBe('nothing');
    expect(effect(failed({ deadline_at: null }))).toBe('nothing');
  });

  test('is not rescued by a heartbeat if it never registered', () => {
    expect(effect(failed({ registered_at: null }))).toBe('nothing');
  });

  test('is not rescued if it says goodbye or lacks a prerequisite', () => {
    expect(effect(failed(), { status: 'stopping' })).toBe('nothing');
    expect(effect(failed({ prerequisites: 'missing' }))).toBe('nothing');
    // The node would fail again at once, in an endless loop.
    expect(effect(failed({ prerequisites: 'unchecked' }))).toBe('nothing');
    expect(effect(failed({ prerequisites: 'met' }))).toBe('starting by late-registration');
  });
});

describe('a ready node', () => {
  test.for<[Beat, string]>([
    [{ status: 'stopping' }, 'offline by goodbye'],
    [{ status: 'stopping', error_rate: 1 }, 'offline by goodbye'],
    [{ status: 'degraded' }, 'degraded by degraded'],
    [{ error_rate: 0.5 }, 'degraded by degraded'],
    [{ status: 'ready', error_rate: 0.9 }, 'degraded by degraded'],
    [{ error_rate: 0.49 }, 'nothing'],
    [{ status: 'ready' }, 'nothing'],
    [{}, 'nothing'],
  ])('after %o: %s', ([beat, expected]) => {
    expect(effect(nodeIn('ready'), beat)).toBe(expected);
  });

  test('changes with a reason that includes its message', () => {
    expect(reasonOf(nodeIn('ready'), { status: 'stopping' })).toBe('the node said goodbye');
    expect(reasonOf(nodeIn('ready'), { status: 'degraded' })).toBe('the node reported degraded');
    expect(reasonOf(nodeIn('ready'), { status: 'degraded', message: ' it ended 3 times\n within 60 s ' })).toBe(
      'the node reported degraded: it ended 3 times within 60 s',
    );
    expect(reasonOf(nodeIn('ready'), { error_rate: 0.5, message: 'the disk is full' })).toBe(
      '50 % of its work fails (degraded from 50 %): the disk is full',
    );
    const silent = { ...nodeIn('offline'), verdict: { rule: 'goodbye' } };
    expect(reasonOf(silent, { status: 'degraded', message: 'still ill' })).toBe('its heartbeats resumed: still ill');
    expect(reasonOf(silent, { status: 'ready', message: 'well' })).toBe('its heartbeats resumed');
    expect(reasonOf(nodeIn('ready'), { error_rate: 0.756 })).toBe('76 % of its work fails (degraded from 50 %)');
  });
});

describe('a degraded node', () => {
  const byErrors = nodeIn('degraded', { verdict: { rule: 'degraded' }, reported_status: 'ready' });
  const byReport = nodeIn('degraded', { verdict: { rule: 'degraded' }, reported_status: 'degraded' });
  const bySilence = (since: number, overrides: Partial<ReportingNode> = {}) =>
    nodeIn('degraded', {
      verdict: { rule: 'liveness' },
      reported_status: 'ready',
      status_since: at(since),
      ...overrides,
    });

  test.for<[Beat, string]>([
    [{ error_rate: 0.09 }, 'ready by degraded'],
    [{ status: 'ready', error_rate: 0 }, 'ready by degraded'],
    // The node becomes ready only far below the threshold, so that it does not flap.
    [{ error_rate: 0.1 }, 'nothing'],
    [{ error_rate: 0.49 }, 'nothing'],
    [{ error_rate: 0.5 }, 'nothing'],
    [{}, 'nothing'],
    [{ status: 'degraded', error_rate: 0 }, 'nothing'],
    [{ status: 'stopping' }, 'offline by goodbye'],
    [{ status: 'stopping', error_rate: 0 }, 'offline by goodbye'],
  ])('by its errors, after %o: %s', ([beat, expected]) => {
    expect(effect(byErrors, beat)).toBe(expected);
  });

  test.for<[Beat, string]>([
    [{ status: 'ready' }, 'ready by degraded'],
    [{ status: 'ready', error_rate: 0 }, 'ready by degraded'],
    [{ status: 'ready', error_rate: 0.3 }, 'nothing'],
    [{ status: 'degraded' }, 'nothing'],
    [{ error_rate: 0 }, 'nothing'],
    [{}, 'nothing'],
    [{ status: 'stopping' }, 'offline by goodbye'],
  ])('by its own report, after %o: %s', ([beat, expected]) => {
    expect(effect(byReport, beat)).toBe(expected);
  });

  test.for(['starting', 'stopping', null])(
    'by its errors, last reported %s, is ready when it reports ready',
    (reported_status) => {
      expect(effect({ ...byErrors, reported_status }, { status: 'ready' })).toBe('ready by degraded');
      expect(effect({ ...byErrors, reported_status }, {})).toBe('nothing');
    },
  );

  test('by its errors, without an error rate, is ready one stale time after it reports ready', () => {
    const since = (seconds: number) => ({ ...byErrors, status_since: bySilence(seconds).status_since });
    expect(effect(since(-stale), { status: 'ready' })).toBe('ready by degraded');
    expect(effect(since(-stale + 0.001), { status: 'ready' })).toBe('nothing');
    expect(effect(since(-stale), { status: 'ready', error_rate: 0.3 })).toBe('nothing');
  });

  test('by its silence is ready when heartbeats resume, one stale time after the verdict', () => {
    expect(effect(bySilence(-stale))).toBe('ready by heartbeat-returned');
    expect(effect(bySilence(-stale + 0.001))).toBe('nothing');
    expect(reasonOf(bySilence(-stale))).toBe('its heartbeats resumed');
  });

  test('by its silence stays degraded while it reports errors', () => {
    expect(effect(bySilence(-stale), { error_rate: 0.5 })).toBe('nothing');
    expect(effect(bySilence(-stale), { status: 'degraded' })).toBe('nothing');
    expect(effect(bySilence(-stale, { reported_status: 'degraded' }))).toBe('nothing');
    expect(effect(bySilence(-stale, { reported_status: 'degraded' }), { status: 'ready' })).toBe(
      'ready by heartbeat-returned',
    );
  });

  test('becomes ready or offline with a reason', () => {
    expect(reasonOf(byErrors, { error_rate: 0.05 })).toBe('only 5 % of its work fails now');
    expect(reasonOf(byReport, { status: 'ready' })).toBe('the node reported ready again');
    expect(reasonOf(byReport, { status: 'stopping' })).toBe('the node said goodbye');
  });
});

describe('an offline node', () => {
  const offline = (rule: string, from: NodeStatus, since = -1000, reported_status = 'ready') =>
    nodeIn('offline', { verdict: { rule, from }, status_since: at(since), reported_status });

  test('returns to its former status when heartbeats resume', () => {
    expect(effect(offline('goodbye', 'ready'))).toBe('ready by heartbeat-returned');
    expect(effect(offline('goodbye', 'degraded'))).toBe('degraded by heartbeat-returned');
    expect(effect(offline('liveness', 'ready'))).toBe('ready by heartbeat-returned');
    expect(effect(nodeIn('offline'))).toBe('ready by heartbeat-returned');
    expect(reasonOf(offline('goodbye', 'ready'))).toBe('its heartbeats resumed');
  });

  test('returns after its stale time if it fell silent, and at once after a goodbye', () => {
    expect(effect(offline('liveness', 'ready', -stale))).toBe('ready by heartbeat-returned');
    expect(effect(offline('liveness', 'ready', -stale + 0.001))).toBe('nothing');
    expect(effect(offline('goodbye', 'ready', 0))).toBe('ready by heartbeat-returned');
  });

  test('is ready when heartbeats resume, if it only answered probes before', () => {
    expect(effect(offline('liveness', 'degraded'))).toBe('ready by heartbeat-returned');
  });

  test.for<[Beat, string]>([
    [{ status: 'degraded' }, 'degraded'],
    [{ error_rate: 0.5 }, 'degraded'],
    [{ error_rate: 0.49 }, 'ready'],
    [{ status: 'ready' }, 'ready'],
    [{ status: 'starting' }, 'ready'],
  ])('that was ready and returns with %o is %s', ([beat, to]) => {
    expect(effect(offline('goodbye', 'ready'), beat)).toBe(`${to} by heartbeat-returned`);
  });

  test.for<[number, string]>([
    [0.09, 'ready'],
    [0.1, 'degraded'],
  ])('that was degraded and returns with an error rate of %d is %s', ([error_rate, to]) => {
    expect(effect(offline('goodbye', 'degraded'), { error_rate })).toBe(`${to} by heartbeat-returned`);
  });

  test('keeps its last report until it reports something else', () => {
    expect(effect(offline('liveness', 'ready', -1000, 'degraded'))).toBe('degraded by heartbeat-returned');
    expect(effect(offline('liveness', 'ready', -1000, 'degraded'), { status: 'ready' })).toBe(
      'ready by heartbeat-returned',
    );
  });

  test('stays offline if it says goodbye again', () => {
    expect(effect(offline('goodbye', 'ready'), { status: 'stopping' })).toBe('nothing');
  });
});

test.for(['provisioning', 'draining', 'cleaning', 'quarantined', 'retired'] as const)(
  'no heartbeat changes a node that is %s',
  (status) => {
    const node = nodeIn(status, { deadline_at: at(100) });
    for (const claim of [undefined, ...reportedStatuses])
      for (const error_rate of [undefined, 0, 1])
        expect(effect(node, { ...(claim && { status: claim }), ...(error_rate !== undefined && { error_rate }) })).toBe(
          'nothing',
        );
  },
);
