import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { moment, secondsLater } from '../../base/clock.ts';
import type { ActionSubject } from './actions.ts';
import {
  bulkAction,
  bulkActionNames,
  judgeTarget,
  maxInProgress,
  nextRecoveryMove,
  type RecoveryFacts,
  whyNotInBulk,
} from './recovery.ts';

const restPhase: RecoveryFacts = {
  phase: 'rest',
  per_minute: 60,
  stop_after_failures: 3,
  waiting: 10,
  acting: 0,
  failed: 0,
  acted_last_minute: 0,
  seconds_since_act: null,
};

describe('the next move of a recovery', () => {
  it('acts on one target at first, and on the next at the configured rate', () => {
    expect(nextRecoveryMove(restPhase)).toMatchObject({ act: 1, stop: false, over: false, wait_seconds: 1 });
    const soon = { ...restPhase, acting: 1, acted_last_minute: 1, seconds_since_act: 0.4 };
    expect(nextRecoveryMove(soon)).toMatchObject({ act: 0, wait_seconds: 0.6 });
    expect(nextRecoveryMove({ ...soon, seconds_since_act: 1 })).toMatchObject({ act: 1 });
  });

  it("acts on at most one second's worth of targets after a long pause", () => {
    const afterPause = { ...restPhase, per_minute: 120, seconds_since_act: 3600 };
    expect(nextRecoveryMove(afterPause).act).toBe(2);
  });

  it('stops at the first failed canary, or at the limit of failures', () => {
    expect(nextRecoveryMove({ ...restPhase, phase: 'canary', failed: 1 })).toMatchObject({
      act: 0,
      stop: true,
      over: true,
    });
    expect(nextRecoveryMove({ ...restPhase, failed: 2 })).toMatchObject({ act: 1, stop: false });
    expect(nextRecoveryMove({ ...restPhase, failed: 3 })).toMatchObject({ act: 0, stop: true, over: true });
  });

  it('ends the phase only when no target is in progress', () => {
    expect(nextRecoveryMove({ ...restPhase, failed: 3, acting: 1 })).toMatchObject({ stop: true, over: false });
    expect(nextRecoveryMove({ ...restPhase, waiting: 0, acting: 1 }).over).toBe(false);
    expect(nextRecoveryMove({ ...restPhase, waiting: 0 }).over).toBe(true);
  });

  it('limits the targets in progress', () => {
    const full = { ...restPhase, per_minute: 6000, acting: maxInProgress };
    expect(nextRecoveryMove(full).act).toBe(0);
    expect(nextRecoveryMove({ ...full, acting: maxInProgress - 2 }).act).toBe(2);
  });

  it('never exceeds the rate in any minute, and reaches all targets', () => {
    const orders = fc.record({
      per_minute: fc.integer({ min: 1, max: 600 }),
      targets: fc.integer({ min: 1, max: 400 }),
      lag: fc.double({ min: 0, max: 3, noNaN: true }),
    });
    fc.assert(
      fc.property(orders, ({ per_minute, targets, lag }) => {
        const acted: number[] = [];
        let at = 0;
        while (acted.length < targets) {
          const last = acted.at(-1);
          const { act, wait_seconds } = nextRecoveryMove({
            ...restPhase,
            per_minute,
            waiting: targets - acted.length,
            acted_last_minute: acted.filter((each) => each > at - 60).length,
            seconds_since_act: last === undefined ? null : at - last,
          });
          for (let i = 0; i < act; i++) acted.push(at);
          expect(acted.filter((each) => each > at - 60).length).toBeLessThanOrEqual(per_minute);
          at += wait_seconds + lag;
        }
      }),
      { numRuns: 50 },
    );
  });
});

describe('the next check of a recovery', () => {
  it('acts on no target while the rate of the last minute is used up', () => {
    const usedUp = { ...restPhase, acted_last_minute: 60, seconds_since_act: 30 };
    expect(nextRecoveryMove(usedUp).act).toBe(0);
    expect(nextRecoveryMove({ ...usedUp, acted_last_minute: 59 }).act).toBe(1);
  });

  it('comes less and less often while the recovery only waits', () => {
    const waits = { ...restPhase, acted_last_minute: 1, seconds_since_act: 8 };
    expect(nextRecoveryMove({ ...waits, acting: maxInProgress }).wait_seconds).toBe(2);
    expect(nextRecoveryMove({ ...waits, waiting: 0, acting: 1 }).wait_seconds).toBe(2);
    expect(nextRecoveryMove({ ...waits, failed: 3, acting: 1 }).wait_seconds).toBe(2);
    expect(nextRecoveryMove({ ...waits, waiting: 0, acting: 1, seconds_since_act: 400 }).wait_seconds).toBe(10);
  });

  it('comes soon after the recovery acted on the last target or reached its limit', () => {
    expect(nextRecoveryMove({ ...restPhase, waiting: 1 })).toMatchObject({ act: 1, wait_seconds: 0.25 });
    expect(nextRecoveryMove({ ...restPhase, acting: maxInProgress - 1 })).toMatchObject({ act: 1, wait_seconds: 0.25 });
  });

  it('comes when the rate allows the remaining targets', () => {
    const quick = { ...restPhase, per_minute: 600, waiting: 12, acted_last_minute: 5, seconds_since_act: 0 };
    expect(nextRecoveryMove(quick)).toMatchObject({ act: 0, wait_seconds: 1 });
    expect(nextRecoveryMove({ ...quick, waiting: 5 })).toMatchObject({ act: 0, wait_seconds: 0.5 });
  });
});

describe('the result of a target', () => {
  const acted_at = moment(Date.parse('2030-01-01T00:00:00Z'));
  const later = secondsLater(acted_at, 5);
  const earlier = secondsLater(acted_at, -5);
  const facts = { status: 'releasing', status_since: later, acted_at, operation_status: 'running' } as const;

  it.each([
    ['is releasing', undefined, facts],
    ['is released', 'recovered', { ...facts, status: 'released' }],
    ['was released before its turn', 'recovered', { ...facts, status: 'released', acted_at: null }],
    ['waits for its turn', undefined, { ...facts, status: 'release_failed', acted_at: null }],
    ['has not failed since the action', undefined, { ...facts, status: 'release_failed', status_since: earlier }],
    ['failed again', 'failed', { ...facts, status: 'release_failed' }],
    ['is releasing, but its operation failed', 'failed', { ...facts, operation_status: 'failed' }],
  ] as const)('that %s: %s', (_, outcome, target) => {
    expect(judgeTarget('retry-release', target)).toBe(outcome);
  });

  it('is not recovered in a status where the action can start, unless it entered the status after the action', () => {
    const ready = { ...facts, status: 'ready' } as const;
    expect(judgeTarget('reimage', { ...ready, status_since: earlier })).toBe(undefined);
    expect(judgeTarget('reimage', { ...ready, acted_at: null })).toBe(undefined);
    expect(judgeTarget('reimage', ready)).toBe('recovered');
  });

  it.each(bulkActionNames)('by %s is unambiguous: no status is recovered and also failed or under way', (action) => {
    const { from, under_way, recovered, failed } = bulkAction(action);
    expect(recovered.filter((status) => failed.includes(status) || under_way.includes(status))).toEqual([]);
    expect(under_way.filter((status) => from.includes(status))).toEqual([]);
  });
});

describe('a bulk action', () => {
  const failed: ActionSubject = {
    status: 'failed',
    node_instance_id: 'inst_1',
    occupancy: 'reserved',
    allocation_status: null,
    endpoint: null,
    deadline_at: null,
    held: null,
    instance_fenced: null,
    taken_down_by: null,
    external: false,
  };
  const running = { paused: false };
  const paused = { paused: true };

  it('is refused if it launches machines in a paused or deleted pool', () => {
    expect(whyNotInBulk('retry', failed, running)).toBe(null);
    expect(whyNotInBulk('retry', failed, paused)).toMatch(/paused/);
    expect(whyNotInBulk('retry', failed, null)).toMatch(/deleted; retire it/);
  });

  it('is accepted in a paused or deleted pool if it launches no machine', () => {
    const quarantined: ActionSubject = { ...failed, status: 'quarantined', occupancy: 'free' };
    for (const pool of [running, paused, null]) expect(whyNotInBulk('retire', quarantined, pool)).toBe(null);
  });

  it('is refused with the status of the machine as the reason, before its pool is checked', () => {
    const serving: ActionSubject = { ...failed, status: 'ready' };
    const why = whyNotInBulk('retry', serving, running);
    expect(why).not.toBe(null);
    expect(whyNotInBulk('retry', serving, null)).toBe(why);
  });
});
