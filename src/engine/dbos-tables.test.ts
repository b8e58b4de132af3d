import type { ClientBase } from 'pg';
import { expect, test } from 'vitest';
import { prepareStatements } from './dbos-tables.ts';

/** A client that records its queries. */
function recordingClient() {
  const queries: unknown[][] = [];
  const client = { query: (...args: unknown[]) => queries.push(args) } as unknown as ClientBase;
  prepareStatements(client);
  const query = client.query as unknown as (...args: unknown[]) => void;
  const names = () => queries.map(([first]) => (first as { name?: string }).name);
  return { query, queries, names };
}

test('gives the same statement the same name, whatever its values', () => {
  const { query, queries, names } = recordingClient();
  const callback = () => {};
  query('SELECT status FROM runs WHERE id = $1', ['a']);
  query('SELECT status FROM runs WHERE id = $1', ['b'], callback);
  query('UPDATE runs SET status = $1', ['c']);
  const [first, second, third] = names();
  expect(first).toMatch(/^dbos_/);
  expect(second).toBe(first);
  expect(third).not.toBe(first);
  expect(queries[1]).toEqual([{ name: first, text: 'SELECT status FROM runs WHERE id = $1', values: ['b'] }, callback]);
});

test('does not prepare statements without values, schema changes, reads of all columns or query objects', () => {
  const { query, queries } = recordingClient();
  const plain: unknown[][] = [
    ['BEGIN'],
    ['create table runs (id text)', []],
    ['SELECT * FROM runs WHERE id = $1', ['a']],
    ['INSERT INTO runs VALUES ($1) RETURNING *', ['a']],
    ['SELECT run.* FROM runs run WHERE id = $1', ['a']],
    [{ text: 'SELECT 1', values: [] }],
  ];
  for (const args of plain) query(...args);
  expect(queries.map((args) => args.filter((each) => each !== undefined))).toEqual(plain);
});

test('names at most 100 statements', () => {
  const { query, names } = recordingClient();
  for (let each = 0; each < 300; each++) query(`SELECT ${each} FROM runs WHERE id = $1`, ['a']);
  expect(names().filter(Boolean)).toHaveLength(100);
});
