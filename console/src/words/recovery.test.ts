import { describe, expect, it } from 'vitest';
import { matchedWords, paceWords } from './recovery.ts';

const bare = (id: string) => id;

describe('a recovery in words', () => {
  it.each([
    [0, [], 'Nothing to recover: nothing fits.'],
    [1, ['a'], '1 allocation; first a.'],
    [2, ['a', 'b'], '2 allocations; first a, b.'],
    [200, ['a', 'b', 'c', 'd', 'e'], '200 allocations; first a, b, c and 197 more.'],
  ])('%i matched', (matched, first, words) => expect(matchedWords({ matched, first }, bare)).toBe(words));
  it('says its pace', () => {
    expect(paceWords({ canary: 1, per_minute: 60, stop_after_failures: 3 })).toBe(
      'Canary 1, then at most 60 a minute, until 3 failed.',
    );
  });
});
