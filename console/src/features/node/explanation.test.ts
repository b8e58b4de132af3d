import { describe, expect, it } from 'vitest';
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import type { Held } from '../../../../src/contract/node.ts';
import type { Progress } from '../../../../src/contract/progress.ts';
import type { Holder } from '../../../../src/contract/supervision/explanation.ts';
import { holdReason, isAhead, isInDoubt, selectEvidence, stuckRelease, waitingWords } from './explanation.ts';

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

describe('a machine', () => {
  it('is in doubt while its verdict is held back or only observed', () => {
    expect(isInDoubt({ held, would_have: null })).toBe(true);
    expect(isInDoubt({ held: null, would_have })).toBe(true);
    expect(isInDoubt({ held: null, would_have: null })).toBe(false);
  });
  it('hides steps that were due, and the end of the hold, while it is in doubt', () => {
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

it('explains why a verdict is held', () => {
  expect(holdReason(held)).toBe('too many machines turned bad at once: 8 of 12');
  expect(holdReason({ ...held, kind: 'maintenance', reason: 'maintenance switch: new' })).toBe(
    'a maintenance window covers it: maintenance switch: new',
  );
  expect(holdReason({ ...held, kind: 'self-fault' })).toContain('may have missed heartbeats');
});

describe('what a machine waits for', () => {
  const node = { waiting_for: null };
  const explained = { status: 'offline', holder: null, waiting_for: 'a heartbeat', progress: null } as const;
  const running = { status: 'running', label: 'Launching', message: '2 of 3 disks' } as Progress;
  it('is the text of the server, or nothing', () => {
    expect(waitingWords(explained, node)).toBe('Waits for a heartbeat');
    expect(waitingWords({ ...explained, waiting_for: null }, node)).toBeNull();
  });
  it('is the running step while an operation works on the machine', () => {
    const provisioning = { ...explained, status: 'provisioning', waiting_for: 'any words', progress: running } as const;
    expect(waitingWords(provisioning, node)).toBe('Launching: 2 of 3 disks');
    expect(waitingWords({ ...provisioning, progress: { ...running, message: 'Launching' } }, node)).toBe('Launching');
    expect(waitingWords({ ...provisioning, progress: { ...running, status: 'queued' } }, node)).toBe(
      'Waits for any words',
    );
    expect(waitingWords(provisioning, { waiting_for: 'capacity' })).toBe('Waits for any words');
    expect(waitingWords({ ...provisioning, status: 'offline' }, node)).toBe('Waits for any words');
  });
  it('is the next try of a release that failed', () => {
    const holder = { status: 'release_failed', release_tries: 1, reason: 'no space left' } as Holder;
    expect(waitingWords({ ...explained, status: 'cleaning', holder, waiting_for: 'any words' }, node)).toBe(
      'Waits for try 2 of its release',
    );
  });
});

it('lists the newest evidence of each kind, except kinds shown elsewhere on the page', () => {
  const facts = ['probe.unanswered', 'node.held', 'node.deadline_moved', 'node.deadline_moved', 'node.offline'];
  const evidence = facts.map((kind, i) => ({ kind, cursor: String(i) }) as Evidence);
  const because = { rule: null, verdict: null, owner: null, at: '', evidence };
  const shown = selectEvidence({ status: 'offline', because, holder: null });
  expect(shown.map(({ cursor }) => cursor)).toEqual(['0', '2']);
});

it('shows a failed release instead of the cleaning status, and does not list it twice', () => {
  const holder = { status: 'release_failed', reason: 'no space left' } as Holder;
  expect(stuckRelease({ status: 'cleaning', holder })).toBe(holder);
  expect(stuckRelease({ status: 'quarantined', holder })).toBeNull();
  expect(stuckRelease({ status: 'cleaning', holder: { ...holder, status: 'releasing' } })).toBeNull();
  const evidence = [{ kind: 'allocation.release_failed', cursor: '1' } as Evidence];
  const because = { rule: null, verdict: null, owner: null, at: '', evidence };
  expect(selectEvidence({ status: 'cleaning', because, holder })).toEqual([]);
});
