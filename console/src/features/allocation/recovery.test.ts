import { describe, expect, it } from 'vitest';
import { matchedWords, paceWords } from './recovery.ts';

const bare = (id: string) => id;

describe('words of a recovery', () => {
  it.each([
    [0, [], 'Nothing to recover.'],
    [1, ['a'], '1 allocation; first a.'],
    [2, ['a', 'b'], '2 allocations; first a, b.'],
    [200, ['a', 'b', 'c', 'd', 'e'], '200 allocations; first a, b, c and 197 more.'],
  ])('describes %i matching allocations', (matched, first, words) =>
    expect(matchedWords({ matched, eligible: matched, not_eligible: [], first }, bare)).toBe(words),
  );
  it('counts the skipped allocations and gives the reason', () => {
    const not_eligible = [{ why_not: 'It is in use.', count: 2 }];
    expect(matchedWords({ matched: 3, eligible: 1, not_eligible, first: ['a'] }, bare)).toBe(
      '1 allocation; first a. 2 skipped: It is in use.',
    );
    expect(matchedWords({ matched: 2, eligible: 0, not_eligible, first: [] }, bare)).toBe(
      'Nothing can be recovered now. 2 skipped: It is in use.',
    );
  });
  it('describes the pace', () => {
    expect(paceWords({ canary: 1, per_minute: 60, stop_after_failures: 3 })).toBe(
      'Canary 1, then at most 60 a minute, until 3 failed.',
    );
  });
});
