import type { ClientBase } from 'pg';
import { expect, test } from 'vitest';
import { preparing } from './dbos-prepared.ts';

/** A client that remembers what it was asked. */
function remembering() {
  const asked: unknown[][] = [];
  const client = { query: (...given: unknown[]) => asked.push(given) } as unknown as ClientBase;
  preparing(client);
  const ask = client.query as unknown as (...given: unknown[]) => void;
  const names = () => asked.map(([first]) => (first as { name?: string }).name);
  return { ask, asked, names };
}

test('a statement with values has one name, however often and with whatever values it comes', () => {
  const { ask, asked, names } = remembering();
  const heard = () => {};
  ask('SELECT status FROM runs WHERE id = $1', ['a']);
  ask('SELECT status FROM runs WHERE id = $1', ['b'], heard);
  ask('UPDATE runs SET status = $1', ['c']);
  const [first, second, third] = names();
  expect(first).toMatch(/^dbos_/);
  expect(second).toBe(first);
  expect(third).not.toBe(first);
  expect(asked[1]).toEqual([{ name: first, text: 'SELECT status FROM runs WHERE id = $1', values: ['b'] }, heard]);
});

test('what has no values, is no plain statement or answers whatever columns there are goes as it came', () => {
  const { ask, asked } = remembering();
  const plain: unknown[][] = [
    ['BEGIN'],
    ['create table runs (id text)', []],
    ['SELECT * FROM runs WHERE id = $1', ['a']],
    ['INSERT INTO runs VALUES ($1) RETURNING *', ['a']],
    ['SELECT run.* FROM runs run WHERE id = $1', ['a']],
    [{ text: 'SELECT 1', values: [] }],
  ];
  for (const given of plain) ask(...given);
  expect(asked.map((given) => given.filter((each) => each !== undefined))).toEqual(plain);
});

test('texts that are different each time are not kept without end', () => {
  const { ask, names } = remembering();
  for (let each = 0; each < 300; each++) ask(`SELECT ${each} FROM runs WHERE id = $1`, ['a']);
  expect(names().filter(Boolean)).toHaveLength(100);
});
