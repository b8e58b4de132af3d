/** A sealed file returns its content. A changed or cut file, or another key, is refused. */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { memoryKeyRing } from '../../../test/support/key-ring.ts';
import { BackupRefused } from './refusal.ts';
import { type NewHeader, openFile, sealFile } from './sealed-file.ts';

const ring = memoryKeyRing();
const header: NewHeader = {
  backup_id: 'backup_1',
  slipway_version: '0.1.0',
  schema_versions: [1, 2],
  engine_schema: 3,
  taken_at: '2030-01-01T00:00:00.000Z',
  installation_id: 'slipway-1',
  postgres_version: '18.4',
};

/** Splits the bytes into odd sizes, as a file system may return them. */
async function* split(bytes: Buffer, size = 60_001): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function collect(chunks: AsyncIterable<Buffer>): Promise<Buffer> {
  const list: Buffer[] = [];
  for await (const chunk of chunks) list.push(chunk);
  return Buffer.concat(list);
}

async function seal(content: Buffer): Promise<{ head: Buffer; chunks: Buffer[] }> {
  const list: Buffer[] = [];
  for await (const chunk of sealFile(split(content), { header, key: ring.current })) list.push(chunk);
  const [head = Buffer.alloc(0), ...chunks] = list;
  return { head, chunks };
}

const open = async (bytes: Buffer, keys = ring): Promise<Buffer> =>
  collect((await openFile(split(bytes))).content(keys));

const readCode = async (opened: Promise<unknown>): Promise<string> => {
  const error = await opened.then(
    () => undefined,
    (refused: unknown) => refused,
  );
  if (!(error instanceof BackupRefused)) throw new Error('not refused', { cause: error });
  return error.code;
};

const chunkBytes = 256 * 1024;
const content = randomBytes(3 * chunkBytes + 17);

test.for([0, 1, chunkBytes - 1, chunkBytes, chunkBytes + 1, 3 * chunkBytes])(
  'returns %i bytes, and hides them in the file',
  async (size) => {
    const part = content.subarray(0, size);
    const { head, chunks } = await seal(part);
    const file = Buffer.concat([head, ...chunks]);
    expect((await open(file)).equals(part)).toBe(true);
    if (size > 1) expect(file.includes(part.subarray(0, 100))).toBe(false);
    const opened = await openFile(split(file));
    expect(opened.header).toMatchObject({ ...header, format: 1, kid: 'key_test' });
  },
);

test('encrypts the same content differently in each file', async () => {
  const [a, b] = [await seal(content), await seal(content)];
  expect(a.chunks[0]?.subarray(4, 36)).not.toEqual(b.chunks[0]?.subarray(4, 36));
});

describe('refuses a file', async () => {
  const { head, chunks } = await seal(content);
  const [first, second, third, last] = chunks as [Buffer, Buffer, Buffer, Buffer];
  const flipBit = (bytes: Buffer, at: number): Buffer => {
    const copy = Buffer.from(bytes);
    copy[at] = (copy[at] ?? 0) ^ 1;
    return copy;
  };

  test.for<[string, Buffer[], string]>([
    ['with a changed byte', [head, first, flipBit(second, 1000), third, last], 'backup_damaged'],
    ['with a changed tag', [head, first, second, third, flipBit(last, last.length - 1)], 'backup_damaged'],
    ['with swapped chunks', [head, first, third, second, last], 'backup_damaged'],
    ['with a repeated chunk', [head, first, first, second, third, last], 'backup_damaged'],
    ['without a chunk in the middle', [head, first, third, last], 'backup_damaged'],
    ['without its last chunk', [head, first, second, third], 'backup_truncated'],
    ['cut within a chunk', [head, first, second.subarray(0, 5000)], 'backup_truncated'],
    ['cut within a length', [head, first, second.subarray(0, 2)], 'backup_truncated'],
    ['cut within its header', [head.subarray(0, 40)], 'backup_truncated'],
    ['that goes on after its end', [head, ...chunks, Buffer.from('x')], 'backup_damaged'],
    ['with a chunk of a wrong length', [head, Buffer.from([0, 255, 255, 255]), first], 'backup_damaged'],
    ['that is something else', [Buffer.from('PGDMP and a long dump')], 'not_a_backup'],
    ['that is empty', [], 'not_a_backup'],
  ])('%s', async ([, parts, code]) => {
    expect(await readCode(open(Buffer.concat(parts)))).toBe(code);
  });

  test('with a changed header', async () => {
    const text = head.toString('latin1');
    expect(text).toContain('2030-01-01');
    const changed = Buffer.from(text.replace('2030-01-01', '2031-01-01'), 'latin1');
    expect(await readCode(open(Buffer.concat([changed, ...chunks])))).toBe('backup_damaged');
  });

  test('with the chunks of another file', async () => {
    const other = await seal(content);
    expect(await readCode(open(Buffer.concat([head, ...other.chunks])))).toBe('backup_damaged');
  });

  test('of another key', async () => {
    const other = memoryKeyRing();
    expect(await readCode(open(Buffer.concat([head, ...chunks]), other))).toBe('backup_damaged');
    const renamed = { ...other, all: [{ ...other.current, kid: 'key_other' }] };
    expect(await readCode(open(Buffer.concat([head, ...chunks]), renamed))).toBe('key_missing');
  });

  test('of a newer format', async () => {
    const text = head.toString('latin1').replace('"format":1', '"format":2');
    expect(await readCode(open(Buffer.concat([Buffer.from(text, 'latin1'), ...chunks])))).toBe('format_newer');
  });

  test('with a header that is no object', async () => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(4);
    const file = Buffer.concat([head.subarray(0, head.indexOf('{') - 4), length, Buffer.from('null')]);
    expect(await readCode(open(file))).toBe('backup_damaged');
  });

  test('and closes it', async () => {
    let isClosed = false;
    async function* readDamagedFile() {
      try {
        yield Buffer.from(head.toString('latin1').replace('"taken_at"', '"token_at"'), 'latin1');
        yield Buffer.concat(chunks);
      } finally {
        isClosed = true;
      }
    }
    expect(await readCode(openFile(readDamagedFile()))).toBe('backup_damaged');
    expect(isClosed).toBe(true);
  });
});
