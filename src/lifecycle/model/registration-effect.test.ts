import { describe, expect, test } from 'vitest';
import { effectOfRegistration, type RegistrationEffect } from './registration-effect.ts';
import type { NodeStatus } from './states.ts';

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000);
const now = at(0);

describe('a registration', () => {
  test.for<[NodeStatus, RegistrationEffect]>([
    ['provisioning', 'start'],
    ['starting', 'count'],
    ['ready', 'count'],
    ['degraded', 'count'],
    ['offline', 'count'],
    ['draining', 'count'],
    ['cleaning', 'return'],
    ['quarantined', 'barred'],
    ['retired', 'fenced'],
  ])('of a node that is %s has the effect %s, whatever its deadline', ([status, effect]) => {
    for (const deadline_at of [null, at(-1), at(1)])
      expect(effectOfRegistration({ status, deadline_at }, now)).toBe(effect);
  });

  test('rescues a failed node until its rescue window ends, and is fenced after that', () => {
    const failed = (deadline_at: Date | null) => effectOfRegistration({ status: 'failed', deadline_at }, now);
    expect(failed(at(1))).toBe('rescue');
    expect(failed(now)).toBe('rescue');
    expect(failed(at(-0.001))).toBe('fenced');
    expect(failed(null)).toBe('fenced');
  });
});
