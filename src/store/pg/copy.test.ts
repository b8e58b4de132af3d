/** COPY in both directions: contents, errors and memory use. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
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

test('keeps little of a large table in memory while its reader is slow', async () => {
  const client = await connect();
  const megabytes = 200;
  const { data, rows } = copyOut(
    client,
    `copy (select repeat('x', 1023) from generate_series(1, ${megabytes * 1024})) to stdout`,
  );
  let bytes = 0;
  // Earlier tests of this worker may have left buffers.
  const before = process.memoryUsage().arrayBuffers;
  let maxBytes = 0;
  for await (const chunk of data) {
    bytes += chunk.length;
    maxBytes = Math.max(maxBytes, process.memoryUsage().arrayBuffers - before);
    // The reader takes its time: other work of the process runs first.
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(await rows).toBe(megabytes * 1024);
  expect(bytes).toBe(megabytes * 2 ** 20);
  process.stdout.write(`${megabytes} MB passed through at most ${Math.round(maxBytes / 2 ** 20)} MB of buffers\n`);
  expect(maxBytes).toBeLessThan((megabytes / 2) * 2 ** 20);
  await client.end();
});
