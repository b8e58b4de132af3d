import { describe, expect, it } from 'vitest';
import { aboutWords, openCount, sideFacts } from './words.ts';

describe('a finding', () => {
  it('is named after its machine, allocation, pool generation, boots or token', () => {
    const about = {
      kind: 'drift',
      subject: 'node_1',
      node_id: 'node_1',
      allocation_id: 'alloc_1',
      pool: 'harbour',
    } as const;
    expect(aboutWords(about)).toBe('node_1');
    expect(aboutWords({ ...about, subject: 'alloc_1', node_id: null })).toBe('alloc_1');
    expect(aboutWords({ ...about, subject: 'harbour/3', node_id: null, allocation_id: null })).toBe('pool harbour/3');
    const slower = { kind: 'boot-shift', subject: 'harbour/provision', node_id: null, allocation_id: null } as const;
    expect(aboutWords({ ...about, ...slower })).toBe('boots of harbour');
    const token = { kind: 'token', subject: 'tok_1', node_id: null, allocation_id: null, pool: null } as const;
    expect(aboutWords(token)).toBe('token tok_1');
  });
  it('shows the known fields of each side, with units', () => {
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
    const stages = [{ stage: 'image-pull', former_seconds: 107, slower_seconds: 214 }];
    expect(sideFacts({ past_budget_share: 0.0432, stages, slowest: [] })).toEqual([
      ['Past budget', '4.3 %'],
      ['Stages', ['stage image-pull, former 1m 47s, slower 3m 34s']],
    ]);
  });
});

describe('the number of open findings beside a link', () => {
  it.each([
    [undefined, null],
    [{ items: [], next_cursor: null }, null],
    [{ items: [1, 2], next_cursor: null }, '2 open'],
    [{ items: [1, 2], next_cursor: 'c' }, '2+ open'],
  ])('%j → %s', (page, words) => expect(openCount(page)).toBe(words));
});
