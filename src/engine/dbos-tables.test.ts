import type { ClientBase } from 'pg';
import { expect, test } from 'vitest';
import { prepareStatements } from './dbos-tables.ts';

/** A client that records its queries. */
function recordingClient() {
  const queries: unknown[][] = [];
  const client = { query: (...given: unknown[]) => queries.push(given) } as unknown as ClientBase;
  prepareStatements(client);
  const ask = client.query as unknown as (...given: unknown[]) => void;
  const names = () => queries.map(([first]) => (first as { name?: string }).name);
  return { ask, queries, names };
}

test('gives a statement one name, whatever its values', () => {
  const { ask, queries, names } = recordingClient();
  const heard = () => {};
  ask('SELECT status FROM runs WHERE id = $1', ['a']);
  ask('SELECT status FROM runs WHERE id = $1', ['b'], heard);
  ask('UPDATE runs SET status = $1', ['c']);
  const [first, second, third] = names();
  expect(first).toMatch(/^dbos_/);
  expect(second).toBe(first);
  expect(third).not.toBe(first);
  expect(queries[1]).toEqual([{ name: first, text: 'SELECT status FROM runs WHERE id = $1', values: ['b'] }, heard]);
});

test('leaves other statements unchanged: no values, not plain text, or returning all columns', () => {
  const { ask, queries } = recordingClient();
  const plain: unknown[][] = [
    ['BEGIN'],
    ['create table runs (id text)', []],
    ['SELECT * FROM runs WHERE id = $1', ['a']],
    ['INSERT INTO runs VALUES ($1) RETURNING *', ['a']],
    ['SELECT run.* FROM runs run WHERE id = $1', ['a']],
    [{ text: 'SELECT 1', values: [] }],
  ];
  for (const given of plain) ask(...given);
  expect(queries.map((given) => given.filter((each) => each !== undefined))).toEqual(plain);
});

test('does not keep an unbounded number of texts', () => {
  const { ask, names } = recordingClient();
  for (let each = 0; each < 300; each++) ask(`SELECT ${each} FROM runs WHERE id = $1`, ['a']);
  expect(names().filter(Boolean)).toHaveLength(100);
});
