import { describe, expect, it } from 'vitest';
import { causeWords, costWords, residueHeadline, residueName, totalCost, whereWords } from './words.ts';

const operator = { name: 'anna', token_id: 'tok_1' } as never;

describe('words of residue', () => {
  it('name the resource and its place', () => {
    expect(residueName({ kind: 'directory', resource: '/srv/inst_1' })).toBe('directory /srv/inst_1');
    expect(whereWords({ driver: 'local', pool: 'again', host: 'quay' })).toBe('local, pool again, on quay');
    expect(whereWords({ driver: 'azure', pool: null, host: null })).toBe('azure');
  });
  it('name the cause and the person', () => {
    expect(causeWords({ why: 'force-release', forced_by: operator })).toBe('its release was forced by anna');
    expect(causeWords({ why: 'force-release', forced_by: null })).toBe('its release was forced');
    expect(causeWords({ why: 'orphan', forced_by: null })).toBe('found without an owner');
  });
  it('sum only known costs', () => {
    expect(costWords(0.25)).toBe('0.25/h');
    expect(totalCost([{ cost_per_hour: null }])).toBeNull();
    expect(totalCost([{ cost_per_hour: null }, { cost_per_hour: 1 }, { cost_per_hour: 0.5 }])).toBe(1.5);
  });
  it('have a headline with the count and the known cost', () => {
    expect(residueHeadline([], true)).toMatch(/^Resources that may be left/);
    expect(residueHeadline([{ cost_per_hour: null }], true)).toBe('1 thing may be left at a provider');
    expect(residueHeadline([{ cost_per_hour: 2 }, { cost_per_hour: null }], false)).toBe(
      '2 or more things may be left at a provider, at 2/h in total, where the cost is known',
    );
  });
});
