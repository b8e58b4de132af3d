import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { earliestReturnAt, isFresh, isProbedAlive, judgeLiveness, type Silence, staleAt } from './liveness.ts';

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000);
const stale = 30;

/** A machine that has been ready for a long time, with its last heartbeat at 0. */
const silence = (overrides: Partial<Silence> = {}): Silence => ({
  status: 'ready',
  status_since: at(-1000),
  last_seen_at: at(0),
  stale_seconds: stale,
  probe_ok_at: null,
  gap_end: null,
  ...overrides,
});

/** The verdict if all received heartbeats are stored. */
const verdictAt = (signs: Silence, now: number) => judgeLiveness(signs, at(now), at(now)).verdict;

describe('a heartbeat', () => {
  test('is fresh for the stale time', () => {
    expect(isFresh(silence(), at(stale))).toBe(true);
    expect(isFresh(silence(), at(stale + 0.001))).toBe(false);
  });

  test('is not fresh if it never came, or if there is no stale time', () => {
    expect(isFresh(silence({ last_seen_at: null }), at(0))).toBe(false);
    expect(isFresh(silence({ stale_seconds: null }), at(0))).toBe(false);
  });
});

describe('a probe', () => {
  test('counts for one stale time if it was answered after the last heartbeat', () => {
    const probed = silence({ probe_ok_at: at(20) });
    expect(isProbedAlive(probed, at(20 + stale))).toBe(true);
    expect(isProbedAlive(probed, at(20 + stale + 0.001))).toBe(false);
  });

  test('does not count if it was answered before the last heartbeat', () => {
    expect(isProbedAlive(silence({ probe_ok_at: at(-1) }), at(1))).toBe(false);
    expect(isProbedAlive(silence({ probe_ok_at: at(0) }), at(1))).toBe(false);
  });

  test('counts for a machine without heartbeats', () => {
    expect(isProbedAlive(silence({ last_seen_at: null, probe_ok_at: at(0) }), at(1))).toBe(true);
  });

  test('does not count without an answer', () => {
    expect(isProbedAlive(silence(), at(0))).toBe(false);
  });

  test('counts only at the moment of its answer if there is no stale time', () => {
    const unknown = silence({ stale_seconds: null, probe_ok_at: at(10) });
    expect(isProbedAlive(unknown, at(10))).toBe(true);
    expect(isProbedAlive(unknown, at(10.001))).toBe(false);
  });
});

describe('the stale time starts', () => {
  test('at the last heartbeat', () => {
    expect(staleAt(silence())).toEqual(at(stale));
  });

  test('at the end of a period in which no replica received heartbeats', () => {
    expect(staleAt(silence({ gap_end: at(100) }))).toEqual(at(100 + stale));
    expect(staleAt(silence({ gap_end: at(-100) }))).toEqual(at(stale));
  });

  test('at the last status change, so that the status does not flap', () => {
    expect(staleAt(silence({ status_since: at(10) }))).toEqual(at(10 + stale));
    expect(staleAt(silence({ status_since: at(10), last_seen_at: null }))).toEqual(at(10 + stale));
  });
});

test('a machine without a stale time is stale from its last heartbeat on', () => {
  expect(staleAt(silence({ stale_seconds: null }))).toEqual(at(0));
});

describe('the verdict', () => {
  test('is offline after the stale time', () => {
    expect(verdictAt(silence(), stale)).toBe('alive');
    expect(verdictAt(silence(), stale + 0.001)).toBe('offline');
  });

  test('is unsure while a heartbeat may have been received but not stored', () => {
    const now = at(stale + 60);
    expect(judgeLiveness(silence(), now, at(stale)).verdict).toBe('unsure');
    expect(judgeLiveness(silence(), now, at(stale - 1)).verdict).toBe('unsure');
    expect(judgeLiveness(silence(), now, at(stale + 0.001)).verdict).toBe('offline');
  });

  test('is degraded for a ready machine that is silent but answers probes, and alive if it was degraded', () => {
    const probed = { probe_ok_at: at(stale) };
    expect(verdictAt(silence(probed), stale + 1)).toBe('degraded');
    expect(verdictAt(silence({ ...probed, status: 'degraded' }), stale + 1)).toBe('alive');
  });

  test('is degraded for a silent machine that answers probes, even if heartbeats are not stored yet', () => {
    expect(judgeLiveness(silence({ probe_ok_at: at(stale) }), at(stale + 1), at(0)).verdict).toBe('degraded');
  });

  test('is offline once the last answered probe is older than the stale time', () => {
    const unanswered = silence({ status: 'degraded', probe_ok_at: at(stale) });
    expect(verdictAt(unanswered, 2 * stale)).toBe('alive');
    expect(verdictAt(unanswered, 2 * stale + 0.001)).toBe('offline');
  });
});

test('lets a silent machine return one stale time after the verdict', () => {
  expect(earliestReturnAt(at(100), stale)).toEqual(at(100 + stale));
});

const moments = fc.integer({ min: -500, max: 500 }).map(at);
const silences: fc.Arbitrary<Silence> = fc.record({
  status: fc.constantFrom('ready' as const, 'degraded' as const),
  status_since: moments,
  last_seen_at: fc.option(moments),
  stale_seconds: fc.integer({ min: 1, max: 120 }),
  probe_ok_at: fc.option(moments),
  gap_end: fc.option(moments),
});

test('is always alive within a stale time of a heartbeat, the end of a gap or a status change', () => {
  fc.assert(
    fc.property(silences, moments, moments, (signs, now, storedThrough) => {
      const { verdict } = judgeLiveness(signs, now, storedThrough);
      if (verdict === 'alive') return;
      for (const sign of [signs.last_seen_at, signs.gap_end, signs.status_since])
        if (sign) expect(now.getTime() - sign.getTime()).toBeGreaterThan((signs.stale_seconds ?? 0) * 1000);
      if (verdict === 'offline') expect(isProbedAlive(signs, now)).toBe(false);
    }),
    { numRuns: 1000 },
  );
});
