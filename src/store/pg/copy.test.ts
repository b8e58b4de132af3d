/** COPY in both directions: contents, errors and memory use. */
import type { Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import { copyIn, copyOut } from './copy.ts';

let store: TestStore;
beforeAll(async () => {
  store = await testStore();
  await store.db.query('create table copied (id bigint primary key, text text)');
});
afterAll(() => store.close());

const connect = () => store.db.connect('copy test');

async function* toChunks(...texts: string[]): AsyncGenerator<Buffer> {
  for (const text of texts) yield Buffer.from(text);
}

async function readText(chunks: AsyncIterable<Buffer>): Promise<string> {
  const list: Buffer[] = [];
  for await (const chunk of chunks) list.push(chunk);
  return Buffer.concat(list).toString();
}

test('copies rows in, in pieces of any size, and out again', async () => {
  const client = await connect();
  expect(await copyIn(client, 'copy copied from stdin', toChunks('1\ta', '\\tb\n', '2\t\\N\n'))).toBe(2);
  const { data, rows } = copyOut(client, 'copy (select * from copied order by id) to stdout');
  expect(await readText(data)).toBe('1\ta\\tb\n2\t\\N\n');
  expect(await rows).toBe(2);
  // The connection is usable afterwards.
  expect((await client.query('select count(*)::int as rows from copied')).rows).toEqual([{ rows: 2 }]);
  await client.end();
});

test('reports the error of the database and of the source, and keeps the connection', async () => {
  const client = await connect();
  await expect(copyIn(client, 'copy copied from stdin', toChunks('x\ty\n'))).rejects.toMatchObject({ code: '22P02' });
  async function* failingRows(): AsyncGenerator<Buffer> {
    yield Buffer.from('7\ta\n');
    throw new Error('the file ended');
  }
  await expect(copyIn(client, 'copy copied from stdin', failingRows())).rejects.toThrow('the file ended');
  await expect(
    readText(copyOut(client, 'copy (select 1/(3 - n) from generate_series(1, 3) n) to stdout').data),
  ).rejects.toMatchObject({ code: '22012' });
  await expect(readText(copyOut(client, 'copy missing to stdout').data)).rejects.toMatchObject({ code: '42P01' });
  expect((await client.query('select from copied where id = 7')).rowCount).toBe(0);
  await client.end();
});

test('reads little ahead of a slow reader', async () => {
  const client = await connect();
  const megabytes = 64;
  const size = megabytes * 2 ** 20;
  const { data, rows } = copyOut(
    client,
    `copy (select repeat('x', 1023) from generate_series(1, ${megabytes * 1024})) to stdout`,
  );
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  const before = stream.bytesRead;
  let bytes = 0;
  let maxAhead = 0;
  for await (const chunk of data) {
    bytes += chunk.length;
    maxAhead = Math.max(maxAhead, stream.bytesRead - before - bytes);
    // The reader takes longer than the connection needs for all the rows that it wants to hold.
    await until('the connection to stop reading', () => stream.isPaused() || stream.bytesRead - before > size);
  }
  expect(await rows).toBe(megabytes * 1024);
  expect(bytes).toBe(size);
  process.stdout.write(`of ${megabytes} MB, at most ${(maxAhead / 2 ** 20).toFixed(1)} MB were read ahead\n`);
  expect(maxAhead).toBeLessThan(4 * 2 ** 20);
  await client.end();
});
