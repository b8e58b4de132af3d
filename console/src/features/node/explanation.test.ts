import { describe, expect, it } from 'vitest';
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import type { Holder } from '../../../../src/contract/explanation.ts';
import type { Held } from '../../../../src/contract/node.ts';
import { findings, isAhead, isInDoubt, stuckRelease, waitingWords, whyHeld, withoutReason } from './explanation.ts';

const held: Held = {
  rule: 'liveness',
  to: 'offline',
  kind: 'mass-failure',
  hold: 'hold_1',
  reason: '8 of 12',
  since: '2026-01-01T12:00:00Z',
  held_until: '2026-01-01T13:00:00Z',
};
const would_have = { rule: 'liveness', to: 'offline', reason: 'silent', at: '2026-01-01T12:00:00Z' };
const nowMs = Date.parse('2026-01-01T12:30:00Z');

describe('a machine is in doubt', () => {
  it('while its verdict is held back or only observed', () => {
    expect(isInDoubt({ held, would_have: null })).toBe(true);
    expect(isInDoubt({ held: null, would_have })).toBe(true);
    expect(isInDoubt({ held: null, would_have: null })).toBe(false);
  });
  it('and then what was due, and the end of the hold, are not announced', () => {
    const past = '2026-01-01T12:10:00Z';
    const later = '2026-01-01T12:50:00Z';
    expect(isAhead(past, { held, would_have: null }, nowMs)).toBe(false);
    expect(isAhead(past, { held: null, would_have }, nowMs)).toBe(false);
    expect(isAhead(held.held_until, { held, would_have: null }, nowMs)).toBe(false);
    expect(isAhead(later, { held, would_have: null }, nowMs)).toBe(true);
    expect(isAhead(null, { held, would_have: null }, nowMs)).toBe(true);
    expect(isAhead(past, { held: null, would_have: null }, nowMs)).toBe(true);
  });
});

it('who holds it is said in words', () => {
  expect(whyHeld(held)).toBe('too many machines turned bad at once: 8 of 12');
  expect(whyHeld({ ...held, kind: 'maintenance', reason: 'maintenance switch: new' })).toBe(
    'somebody works there: maintenance switch: new',
  );
  expect(whyHeld({ ...held, kind: 'self-fault' })).toContain('not sure of its own hearing');
});

it('what it waits for reads as a sentence, whoever wrote it', () => {
  expect(waitingWords('a heartbeat')).toBe('Waits for a heartbeat');
  expect(waitingWords('Waiting for it to register')).toBe('Waits for it to register');
  expect(waitingWords('Launching: 2 of 3 disks')).toBe('Launching: 2 of 3 disks');
});

it('findings are the newest of each kind, without what is told elsewhere', () => {
  const facts = ['probe.unanswered', 'node.held', 'node.deadline_moved', 'node.deadline_moved', 'node.offline'];
  const evidence = facts.map((kind, i) => ({ kind, cursor: String(i) }) as Evidence);
  const because = { rule: null, verdict: null, owner: null, at: '', evidence };
  const told = findings({ status: 'offline', because, holder: null });
  expect(told.map(({ cursor }) => cursor)).toEqual(['0', '2']);
});

it('a release that failed goes before the clean-up it is part of, and is told once', () => {
  const holder = { status: 'release_failed', reason: 'no space left' } as Holder;
  expect(stuckRelease({ status: 'cleaning', holder })).toBe(holder);
  expect(stuckRelease({ status: 'quarantined', holder })).toBeNull();
  expect(stuckRelease({ status: 'cleaning', holder: { ...holder, status: 'releasing' } })).toBeNull();
  expect(withoutReason('try 2 of its release: no space left', holder)).toBe('try 2 of its release');
  const evidence = [{ kind: 'allocation.release_failed', cursor: '1' } as Evidence];
  const because = { rule: null, verdict: null, owner: null, at: '', evidence };
  expect(findings({ status: 'cleaning', because, holder })).toEqual([]);
});
