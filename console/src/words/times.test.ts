import { describe, expect, it } from 'vitest';
import { absolute, age, relative } from './times.ts';

const now = Date.parse('2026-03-01T12:00:00Z');
const before = (seconds: number) => now - seconds * 1000;

describe('times', () => {
  it('looks back coarsely and ahead to the second', () => {
    expect(relative(before(1), now)).toBe('just now');
    expect(relative(before(59), now)).toBe('59s ago');
    expect(relative(before(252), now)).toBe('4m ago');
    expect(relative(before(3840), now)).toBe('1h 04m ago');
    expect(relative(before(-252), now)).toBe('in 4m 12s');
  });

  it('gives no age below zero, whatever the clocks say', () => {
    expect(age(before(-5), now)).toBe('0s');
    expect(age(before(90), now)).toBe('1m');
  });

  it('keeps the UTC that logs carry in the absolute time', () => {
    expect(absolute('2026-03-01T12:00:00.123Z')).toContain('2026-03-01T12:00:00.123Z');
  });
});
