/** Encodes the records of a backup as bytes. The last record has a digest of the others. */
import { createHash } from 'node:crypto';
import { ByteReader } from './byte-reader.ts';
import { damagedError, truncatedError } from './refusal.ts';

export interface EvidencePiece {
  layer: string;
  until: string;
}

export interface SequenceValue {
  name: string;
  /** Null if the sequence was never used. */
  last_value: string | null;
}

/** The partitions that the tables need before their rows. */
export interface Layout {
  kind: 'layout';
  evidence_pieces: EvidencePiece[];
}

export interface TableBegin {
  kind: 'table';
  schema: string;
  table: string;
  columns: string[];
}

export interface TableEnd {
  kind: 'table_end';
  rows: number;
}

export interface End {
  kind: 'end';
  /** The rows of each table. */
  tables: Record<string, number>;
  sequences: SequenceValue[];
}

/** Rows in PostgreSQL's text format; a record may begin and end within a row. */
export interface Rows {
  kind: 'rows';
  data: Buffer;
}

export type BackupRecord = Layout | TableBegin | Rows | TableEnd | End;

/** The position of a kind in this list is its number in the file. */
const kinds = ['layout', 'table', 'rows', 'table_end', 'end'] as const;
const headBytes = 5;
const maxRecordBytes = 16 * 1024 * 1024;

function encode(kind: BackupRecord['kind'], payload: Buffer): Buffer[] {
  const head = Buffer.alloc(headBytes);
  head.writeUInt8(kinds.indexOf(kind));
  head.writeUInt32BE(payload.length, 1);
  return [head, payload];
}

const encodePayload = (record: BackupRecord): Buffer =>
  record.kind === 'rows' ? record.data : Buffer.from(JSON.stringify({ ...record, kind: undefined }));

/** Adds the digest of all earlier records to the last one. */
export async function* encodeRecords(records: AsyncIterable<BackupRecord>): AsyncGenerator<Buffer> {
  const digest = createHash('sha256');
  for await (const record of records) {
    const payload =
      record.kind === 'end'
        ? Buffer.from(JSON.stringify({ ...record, kind: undefined, digest: digest.digest('hex') }))
        : encodePayload(record);
    for (const part of encode(record.kind, payload)) {
      if (record.kind !== 'end') digest.update(part);
      yield part;
    }
  }
}

/** Throws unless the last record has the digest of the others. */
export async function* decodeRecords(bytes: AsyncIterable<Buffer>): AsyncGenerator<BackupRecord> {
  const reader = new ByteReader(bytes);
  const digest = createHash('sha256');
  for (;;) {
    const head = await reader.read(headBytes);
    if (head.length < headBytes) throw truncatedError();
    const kind = kinds[head.readUInt8()];
    const length = head.readUInt32BE(1);
    if (kind === undefined || length > maxRecordBytes)
      throw damagedError('It has a record of an unknown kind or length.');
    const payload = await reader.read(length);
    if (payload.length < length) throw truncatedError();
    if (kind !== 'end') digest.update(head).update(payload);
    if (kind === 'rows') {
      yield { kind, data: payload };
      continue;
    }
    const fields = JSON.parse(payload.toString()) as Omit<Exclude<BackupRecord, Rows>, 'kind'> & { digest?: string };
    if (kind === 'end') {
      if (fields.digest !== digest.digest('hex')) throw damagedError('The digest of its records differs.');
      if ((await reader.read(1)).length > 0) throw damagedError('There is more after its last record.');
    }
    yield { ...fields, kind } as BackupRecord;
    if (kind === 'end') return;
  }
}
