import { describe, expect, it } from 'vitest';
import { asSet, fields, fromSet } from './search-params.ts';

describe('state in the address', () => {
  it('is words, known ones only', () => {
    const read = fields('q', 'status');
    expect(read({ q: 123, status: '', evil: 'x' })).toEqual({ q: '123' });
  });

  it('holds sets, without what is no member', () => {
    const known = ['ready', 'failed'] as const;
    expect([...asSet('failed,nonsense', known)]).toEqual(['failed']);
    expect(fromSet(new Set(['ready', 'failed']))).toBe('ready,failed');
    expect(fromSet(new Set())).toBeUndefined();
  });
});
