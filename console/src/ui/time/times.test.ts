import { describe, expect, it } from 'vitest';
import { formatAbsolute, formatAge, formatDue, formatRelative, withLocalTimes } from './times.ts';

const now = Date.parse('2026-03-01T12:00:00Z');
const secondsBefore = (seconds: number) => now - seconds * 1000;

describe('a moment', () => {
  it('is coarse for the past and exact for the future', () => {
    expect(formatRelative(secondsBefore(1), now)).toBe('just now');
    expect(formatRelative(secondsBefore(59), now)).toBe('59s ago');
    expect(formatRelative(secondsBefore(252), now)).toBe('4m ago');
    expect(formatRelative(secondsBefore(3840), now)).toBe('1h 04m ago');
    expect(formatRelative(secondsBefore(-252), now)).toBe('in 4m 12s');
  });

  it('is shown as now when it is due, never as past', () => {
    expect(formatDue(secondsBefore(-252), now)).toBe('in 4m 12s');
    expect(formatDue(secondsBefore(-1.5), now)).toBe('in 1s');
    for (const seconds of [-0.4, 0, 5]) expect(formatDue(secondsBefore(seconds), now)).toBe('now');
  });

  it('never has a negative age', () => {
    expect(formatAge(secondsBefore(-5), now)).toBe('0s');
    expect(formatAge(secondsBefore(90), now)).toBe('1m');
  });

  it('includes UTC in its absolute time', () => {
    expect(formatAbsolute('2026-03-01T12:00:00.123Z')).toContain('2026-03-01T12:00:00.123Z');
  });
});

describe('timestamps in a sentence of the server', () => {
  it('become local times; other text is unchanged', () => {
    const at = '2026-03-04T05:06:07.890Z';
    const local = withLocalTimes(`its deadline moves to ${at}`);
    expect(local).toMatch(/^its deadline moves to .*2026/);
    expect(local).not.toContain('T05');
    expect(local).not.toMatch(/[AP]M/);
    expect(local).toMatch(/\d\d:06:07 \S+$/);
    expect(withLocalTimes('it takes work again')).toBe('it takes work again');
  });
});
