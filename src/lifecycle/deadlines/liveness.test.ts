import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isFresh, isProbedAlive, judgeLiveness, mayReturnAt, type Silence, staleAt } from './liveness.ts';

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000);
const stale = 30;

/** Ready for a long time, last heartbeat at 0. */
const silence = (over: Partial<Silence> = {}): Silence => ({
  status: 'ready',
  status_since: at(-1000),
  last_seen_at: at(0),
  stale_seconds: stale,
  probe_ok_at: null,
  gap_end: null,
  ...over,
});

/** With all received heartbeats stored. */
const judged = (signs: Silence, now: number) => judgeLiveness(signs, at(now), at(now)).verdict;

describe('a heartbeat', () => {
  test('is fresh for the stale time of its machine', () => {
    expect(isFresh(silence(), at(stale))).toBe(true);
    expect(isFresh(silence(), at(stale + 0.001))).toBe(false);
  });

  test('that never came, or whose stale time is unknown, is not fresh', () => {
    expect(isFresh(silence({ last_seen_at: null }), at(0))).toBe(false);
    expect(isFresh(silence({ stale_seconds: null }), at(0))).toBe(false);
  });
});

describe('a probe', () => {
  test('speaks for a machine that was silent since, for as long as a beat would', () => {
    const probed = silence({ probe_ok_at: at(20) });
    expect(isProbedAlive(probed, at(20 + stale))).toBe(true);
    expect(isProbedAlive(probed, at(20 + stale + 0.001))).toBe(false);
  });

  test('that was answered before the last beat says nothing more', () => {
    expect(isProbedAlive(silence({ probe_ok_at: at(-1) }), at(1))).toBe(false);
    expect(isProbedAlive(silence({ probe_ok_at: at(0) }), at(1))).toBe(false);
  });

  test('speaks for a machine that never beat', () => {
    expect(isProbedAlive(silence({ last_seen_at: null, probe_ok_at: at(0) }), at(1))).toBe(true);
  });

  test('that was never answered says nothing', () => {
    expect(isProbedAlive(silence(), at(0))).toBe(false);
  });

  test('is worth nothing later where the stale time is unknown', () => {
    const unknown = silence({ stale_seconds: null, probe_ok_at: at(10) });
    expect(isProbedAlive(unknown, at(10))).toBe(true);
    expect(isProbedAlive(unknown, at(10.001))).toBe(false);
  });
});

describe('silence counts', () => {
  test('from the last beat', () => {
    expect(staleAt(silence())).toEqual(at(stale));
  });

  test('from the end of a gap in which we could hear nobody', () => {
    expect(staleAt(silence({ gap_end: at(100) }))).toEqual(at(100 + stale));
    expect(staleAt(silence({ gap_end: at(-100) }))).toEqual(at(stale));
  });

  test('from the last change of status, so that one at the threshold does not flap', () => {
    expect(staleAt(silence({ status_since: at(10) }))).toEqual(at(10 + stale));
    expect(staleAt(silence({ status_since: at(10), last_seen_at: null }))).toEqual(at(10 + stale));
  });

  test('at once where the stale time is unknown', () => {
    expect(staleAt(silence({ stale_seconds: null }))).toEqual(at(0));
  });
});

describe('the verdict', () => {
  test('is offline after the stale time and not before', () => {
    expect(judged(silence(), stale)).toBe('alive');
    expect(judged(silence(), stale + 0.001)).toBe('offline');
  });

  test('is never offline while a beat from before the threshold may still be on its way to the store', () => {
    const now = at(stale + 60);
    expect(judgeLiveness(silence(), now, at(stale)).verdict).toBe('unsure');
    expect(judgeLiveness(silence(), now, at(stale - 1)).verdict).toBe('unsure');
    expect(judgeLiveness(silence(), now, at(stale + 0.001)).verdict).toBe('offline');
  });

  test('is degraded for one that is silent but answers probes, and stays so', () => {
    const probed = { probe_ok_at: at(stale) };
    expect(judged(silence(probed), stale + 1)).toBe('degraded');
    expect(judged(silence({ ...probed, status: 'degraded' }), stale + 1)).toBe('alive');
  });

  test('needs no word of the slowest replica to be degraded', () => {
    expect(judgeLiveness(silence({ probe_ok_at: at(stale) }), at(stale + 1), at(0)).verdict).toBe('degraded');
  });

  test('is offline once the probes are not answered any more', () => {
    const gone = silence({ status: 'degraded', probe_ok_at: at(stale) });
    expect(judged(gone, 2 * stale)).toBe('alive');
    expect(judged(gone, 2 * stale + 0.001)).toBe('offline');
  });
});

test('one that fell silent is believed again one stale time after the verdict', () => {
  expect(mayReturnAt(at(100), stale)).toEqual(at(100 + stale));
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

test('nobody is judged within one stale time of a beat, of a gap or of the last verdict', () => {
  fc.assert(
    fc.property(silences, moments, moments, (signs, now, heard) => {
      const { verdict } = judgeLiveness(signs, now, heard);
      if (verdict === 'alive') return;
      for (const sign of [signs.last_seen_at, signs.gap_end, signs.status_since])
        if (sign) expect(now.getTime() - sign.getTime()).toBeGreaterThan((signs.stale_seconds ?? 0) * 1000);
      if (verdict === 'offline') expect(isProbedAlive(signs, now)).toBe(false);
    }),
    { numRuns: 1000 },
  );
});
