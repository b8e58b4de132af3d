import { describe, expect, test } from 'vitest';
import { defaultBrakeSettings } from '../brake/brake.ts';
import type { History, RecordedChange, RecordedHeld, ReplayPolicy } from './history.ts';
import { at, history, ids, policy, replay } from './testing/histories.ts';

describe('the brake', () => {
  const offline = (count: number, seconds: number): RecordedChange[] =>
    Array.from({ length: count }, () => ({
      ...ids(),
      at: at(seconds),
      from: 'ready',
      to: 'offline',
      by: 'liveness',
      reason: 'it has been silent',
    }));
  const held = (count: number, seconds: number): RecordedHeld[] =>
    offline(count, seconds).map(({ from: _, by, ...each }) => ({ ...each, rule: by, reason: '6 of 20 machines' }));
  const brake = (fraction: number, min_nodes: number) => policy({ brake: { fraction, min_nodes } });
  const counts = (past: History, proposed: ReplayPolicy) => replay(past, proposed).differencesByKind;

  test('holds written verdicts under a lower threshold, counting the fleet at that time', () => {
    const past = history(brake(0.5, 5), { changes: offline(6, 100), final_counts: { ready: 14, offline: 6 } });
    expect(counts(past, brake(0.5, 5))).toEqual({});
    expect(counts(past, brake(0.2, 5))).toEqual({ held: 6 });
    expect(counts(past, brake(0.3, 5))).toEqual({});
    expect(counts(past, brake(0.2, 7))).toEqual({});
    expect(replay(past, brake(0.2, 5)).differences[0]).toMatchObject({
      rule: 'liveness',
      was: { verdict: 'offline' },
      would_be: { verdict: 'held' },
    });
  });

  test('counts only verdicts within its window', () => {
    const spread = (seconds: number) =>
      history(brake(0.9, 5), {
        changes: [...offline(3, 100), ...offline(3, 100 + seconds)],
        final_counts: { ready: 14, offline: 6 },
      });
    expect(counts(spread(59), brake(0.2, 5))).toEqual({ held: 3 });
    expect(counts(spread(61), brake(0.2, 5))).toEqual({});
  });

  test('allows held verdicts under a higher threshold', () => {
    const past = history(brake(0.2, 5), { held: held(6, 100), final_counts: { ready: 20 } });
    expect(counts(past, brake(0.2, 5))).toEqual({});
    expect(counts(past, brake(0.5, 5))).toEqual({ not_held: 6 });
    expect(replay(past, brake(0.5, 5)).differences[0]).toMatchObject({
      was: { verdict: 'held', reason: '6 of 20 machines' },
      would_be: { verdict: 'offline' },
    });
  });

  test('ignores held verdicts that the brake policy in force would not have held', () => {
    const past = history(brake(0.9, 5), { held: held(6, 100), final_counts: { ready: 20 } });
    expect(counts(past, brake(0.95, 5))).toEqual({});
  });

  test('ends a hold when all held machines are back', () => {
    const first = offline(6, 100);
    const back = first.map(
      (each) => ({ ...each, at: at(150), from: 'offline', to: 'ready', by: 'heartbeat-returned' }) as const,
    );
    const changes = [...first, ...back, ...offline(1, 900)];
    const past = history(brake(0.9, 5), { changes, final_counts: { ready: 19, offline: 1 } });
    expect(counts(past, brake(0.2, 5))).toEqual({ held: 6 });
    const stays = history(brake(0.9, 5), {
      changes: [...first, ...offline(1, 900)],
      final_counts: { ready: 13, offline: 7 },
    });
    expect(counts(stays, brake(0.2, 5))).toEqual({ held: 7 });
  });

  test('ends a hold after its time', () => {
    const { mass_failure_seconds } = defaultBrakeSettings;
    const another = (seconds: number) =>
      history(brake(0.9, 5), {
        changes: [...offline(6, 100), ...offline(1, 100 + seconds)],
        final_counts: { ready: 13, offline: 7 },
      });
    expect(counts(another(mass_failure_seconds - 1), brake(0.2, 5))).toEqual({ held: 7 });
    expect(counts(another(mass_failure_seconds), brake(0.2, 5))).toEqual({ held: 6 });
  });

  test('counts the fleet at the time of each verdict', () => {
    const grown = Array.from({ length: 90 }, () => ({ ...offline(1, 500)[0], from: 'new', to: 'ready', by: 'join' }));
    const changes = [...offline(6, 100), ...grown, ...offline(6, 9000)] as RecordedChange[];
    const past = history(brake(0.9, 5), { changes, final_counts: { ready: 98, offline: 12 } });
    expect(replay(past, brake(0.2, 5)).differences.map(({ at: when }) => when)).toEqual(Array(6).fill(at(100)));
  });

  test('counts a verdict that was first held and later written as one', () => {
    const [one, ...rest] = held(6, 100);
    if (!one) throw new Error('no verdict is held');
    const later: RecordedChange = { ...one, at: at(3700), from: 'ready', to: 'offline', by: 'liveness' };
    const past = history(brake(0.2, 5), {
      held: [one, ...rest],
      changes: [later],
      final_counts: { ready: 19, offline: 1 },
    });
    expect(counts(past, brake(0.5, 5))).toEqual({ not_held: 6 });
  });

  test('pauses launches when deadlines fail many machines at once', () => {
    const failed = offline(6, 100).map(
      (each) => ({ ...each, from: 'provisioning', to: 'failed', by: 'provision-deadline' }) as const,
    );
    const past = (inForce: ReplayPolicy) =>
      history(inForce, { changes: failed, final_counts: { failed: 6, provisioning: 14 } });
    expect(counts(past(brake(0.9, 5)), brake(0.2, 5))).toEqual({ launches_paused: 1 });
    expect(counts(past(brake(0.2, 5)), brake(0.9, 5))).toEqual({ launches_not_paused: 1 });
    expect(replay(past(brake(0.9, 5)), brake(0.2, 5)).differences[0]?.node_id).toBe(failed.at(-1)?.node_id);
  });

  test('uses the policy in force at the time', () => {
    const past = history(brake(0.2, 5), { changes: offline(6, 100), final_counts: { ready: 14, offline: 6 } });
    past.generations.unshift({ generation: 0, created_at: at(-2e6), policy: brake(0.2, 5) });
    past.generations.push({ generation: 2, created_at: at(200), policy: brake(0.2, 5) });
    if (past.generations[1]) past.generations[1].policy = brake(0.5, 5);
    expect(counts(past, brake(0.2, 5))).toEqual({ held: 6 });
  });
});
