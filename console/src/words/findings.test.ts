import { describe, expect, it } from 'vitest';
import { aboutWords, openCount, sideFacts } from './findings.ts';

describe('a finding in words', () => {
  it('is about a machine, an allocation, or a generation of a pool', () => {
    const about = { subject: 'node_1', node_id: 'node_1', allocation_id: 'alloc_1', pool: 'harbour' };
    expect(aboutWords(about)).toBe('node_1');
    expect(aboutWords({ ...about, subject: 'alloc_1', node_id: null })).toBe('alloc_1');
    expect(aboutWords({ ...about, subject: 'harbour/3', node_id: null, allocation_id: null })).toBe('pool harbour/3');
  });
  it('says what each side knows, and nothing of what it does not', () => {
    expect(
      sideFacts({
        status: 'ready',
        held: null,
        failures: 3,
        newest: ['no disk', 'no net'],
        spec: { cpu: 2, gpu: null },
      }),
    ).toEqual([
      ['Status', 'ready'],
      ['Failures', '3'],
      ['Newest', 'no disk; no net'],
      ['Spec', 'cpu 2'],
    ]);
    const newest = [{ by: 'provision-deadline', reason: 'timed out' }, { reason: 'no disk' }];
    expect(sideFacts({ window_seconds: 86_400, newest })).toEqual([
      ['Window', '24 h'],
      ['Newest', ['by provision-deadline, timed out', 'no disk']],
    ]);
  });
});

describe('the count beside a link', () => {
  it.each([
    [undefined, null],
    [{ items: [], next_cursor: null }, null],
    [{ items: [1, 2], next_cursor: null }, '2 open'],
    [{ items: [1, 2], next_cursor: 'c' }, '2+ open'],
  ])('%j → %s', (page, words) => expect(openCount(page)).toBe(words));
});
