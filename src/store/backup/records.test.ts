/** Encoded records decode to the same records, and the last one detects changes of the others. */
import { expect, test } from 'vitest';
import { type BackupRecord, decodeRecords, encodeRecords } from './records.ts';

const records: BackupRecord[] = [
  { kind: 'layout', evidence_pieces: [{ layer: 'rule', until: '2030-01-01T00:00:00Z' }] },
  { kind: 'table', schema: 'public', table: 'pools', columns: ['name'] },
  { kind: 'rows', data: Buffer.from('a\nb\n') },
  { kind: 'rows', data: Buffer.alloc(0) },
  { kind: 'table_end', rows: 2 },
  { kind: 'end', tables: { 'public.pools': 2 }, sequences: [{ name: 'public.s', last_value: null }] },
];

async function* toStream<T>(list: T[]): AsyncGenerator<T> {
  yield* list;
}

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of source) list.push(item);
  return list;
}

const encodeAll = async (list = records): Promise<Buffer> =>
  Buffer.concat(await collect(encodeRecords(toStream(list))));
const decodeAll = (bytes: Buffer): Promise<BackupRecord[]> =>
  collect(decodeRecords(toStream([bytes.subarray(0, 7), bytes.subarray(7)])));

test('decodes every encoded record', async () => {
  const withDigest = records.map((record) =>
    record.kind === 'end' ? { ...record, digest: expect.stringMatching(/^[0-9a-f]{64}$/) } : record,
  );
  expect(await decodeAll(await encodeAll())).toEqual(withDigest);
});

test('refuses records that differ from their digest, are cut, or go on after the last one', async () => {
  const bytes = await encodeAll();
  const at = bytes.indexOf('a\nb\n');
  const changed = Buffer.from(bytes);
  changed.write('c', at);
  await expect(decodeAll(changed)).rejects.toMatchObject({ code: 'backup_damaged' });
  await expect(decodeAll(bytes.subarray(0, -1))).rejects.toMatchObject({ code: 'backup_truncated' });
  await expect(decodeAll(await encodeAll(records.slice(0, -1)))).rejects.toMatchObject({ code: 'backup_truncated' });
  await expect(decodeAll(Buffer.concat([bytes, bytes]))).rejects.toMatchObject({ code: 'backup_damaged' });
  await expect(decodeAll(Buffer.from([9, 0, 0, 0, 0]))).rejects.toMatchObject({ code: 'backup_damaged' });
});
