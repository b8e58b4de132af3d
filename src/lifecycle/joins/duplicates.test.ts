import { expect, test } from 'vitest';
import { moment, secondsLater } from '../../base/clock.ts';
import {
  addHolder,
  type ClientProcess,
  clearHolder,
  dropForgottenProcesses,
  judgeProcess,
  type KeepNamePolicy,
  maxProcesses,
} from './duplicates.ts';

const start = moment(Date.UTC(2030, 0, 1));
const at = (seconds: number) => secondsLater(start, seconds);
const named = (process: string) => ({ process, endpoint: `http://${process}`, source: null });

/**
 * Registers the processes in this order, one second apart, while all of them send heartbeats.
 * Returns the verdicts.
 */
function register(order: string[], keep: KeepNamePolicy) {
  let known: ClientProcess[] = [];
  return order.map((claimant, second) => {
    const verdict = judgeProcess({ known, claimant, is_beating: true, keep });
    if (verdict === 'restart' || verdict === 'takes_back') known = addHolder(known, named(claimant), at(second));
    return verdict;
  });
}

const alternating = ['a', 'b', 'a', 'b', 'a', 'b', 'b'];

test('the first of two processes takes its name back once and keeps it', () => {
  expect(register(alternating, 'first')).toEqual([
    ...['restart', 'restart', 'takes_back', 'refused', 'restart', 'refused', 'refused'],
  ]);
});

test('the latest of two processes keeps the name', () => {
  expect(register(alternating, 'latest')).toEqual([
    ...['restart', 'restart', 'refused', 'restart', 'refused', 'restart', 'restart'],
  ]);
});

test('three processes stop taking the name back from each other', () => {
  const order = Array.from({ length: 60 }, (_, turn) => 'abc'[turn % 3] ?? 'a');
  for (const keep of ['first', 'latest'] as const)
    expect(
      register(order, keep)
        .slice(6)
        .filter((verdict) => verdict === 'takes_back'),
      keep,
    ).toEqual([]);
});

test('a process with a new id counts as a restart and is not refused', () => {
  const order = Array.from({ length: maxProcesses }, (_, turn) => `start-${turn}`);
  expect(new Set(register(order, 'first'))).toEqual(new Set(['restart']));
});

test('processes beyond the limit wait until the holder is silent', () => {
  const order = Array.from({ length: maxProcesses + 5 }, (_, turn) => `start-${turn}`);
  const verdicts = register(order, 'first');
  expect(verdicts.slice(maxProcesses)).toEqual(Array(5).fill('too_many'));
  const known = order
    .slice(0, maxProcesses)
    .reduce<ClientProcess[]>((all, each) => addHolder(all, named(each), at(0)), []);
  expect(known).toHaveLength(maxProcesses);
  expect(judgeProcess({ known, claimant: 'next', is_beating: false, keep: 'first' })).toBe('restart');
});

test('any process counts as a restart if the holder is silent', () => {
  const known = addHolder(addHolder([], named('a'), at(0)), named('b'), at(1));
  expect(judgeProcess({ known, claimant: 'a', is_beating: false, keep: 'latest' })).toBe('restart');
  expect(judgeProcess({ known, claimant: null, is_beating: false, keep: 'first' })).toBe('restart');
});

test('a process without an id takes the name only under the policy latest', () => {
  const known = addHolder([], named('a'), at(0));
  expect(judgeProcess({ known, claimant: null, is_beating: true, keep: 'first' })).toBe('refused');
  expect(judgeProcess({ known, claimant: null, is_beating: true, keep: 'latest' })).toBe('restart');
  expect(judgeProcess({ known: [], claimant: null, is_beating: true, keep: 'first' })).toBe('restart');
});

test('newcomers never evict the first process', () => {
  const order = Array.from({ length: 3 * maxProcesses }, (_, turn) => `start-${turn}`);
  const known = order.reduce<ClientProcess[]>((all, each) => addHolder(all, named(each), at(0)), []);
  expect(known).toHaveLength(maxProcesses);
  expect(known.at(-1)).toMatchObject({ process: order.at(-1), held_until: null });
  expect(judgeProcess({ known, claimant: 'start-0', is_beating: true, keep: 'first' })).toBe('takes_back');
});

test('a full list keeps the first process and the last holder', () => {
  const order = Array.from({ length: maxProcesses }, (_, turn) => `start-${turn}`);
  const full = order.reduce<ClientProcess[]>((all, each) => addHolder(all, named(each), at(0)), []);
  const known = addHolder(full, named('newcomer'), at(1));
  expect(known).toHaveLength(maxProcesses);
  const judged = ['start-0', order.at(-1) ?? ''].map((claimant) =>
    judgeProcess({ known, claimant, is_beating: true, keep: 'first' }),
  );
  expect(judged).toEqual(['takes_back', 'takes_back']);
});

test('a process without an id gets the name if the holder sends no id either', () => {
  const known = clearHolder(addHolder(addHolder([], named('a'), at(0)), named('b'), at(1)), at(2));
  expect(judgeProcess({ known, claimant: null, is_beating: true, keep: 'first' })).toBe('restart');
  expect(known.map(({ held_until }) => held_until)).toEqual([at(1).toISOString(), at(2).toISOString()]);
});

test('forgets former holders after an hour, never the holder', () => {
  const known = addHolder(addHolder([], named('a'), at(0)), named('b'), at(1));
  expect(known).toEqual([
    { ...named('a'), held_until: at(1).toISOString() },
    { ...named('b'), held_until: null },
  ]);
  expect(dropForgottenProcesses(known, at(3000))).toHaveLength(2);
  expect(dropForgottenProcesses(known, at(86_400)).map(({ process }) => process)).toEqual(['b']);
});
