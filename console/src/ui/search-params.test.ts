import { describe, expect, it } from 'vitest';
import { asSet, fields, fromSet } from './search-params.ts';

describe('state in the URL', () => {
  it('keeps known fields as strings and drops unknown ones', () => {
    const read = fields('q', 'status');
    expect(read({ q: 123, status: '', unknown: 'x' })).toEqual({ q: '123' });
  });

  it('reads and writes sets, without unknown members', () => {
    const known = ['ready', 'failed'] as const;
    expect([...asSet('failed,nonsense', known)]).toEqual(['failed']);
    expect(fromSet(new Set(['ready', 'failed']))).toBe('ready,failed');
    expect(fromSet(new Set())).toBeUndefined();
  });
});
