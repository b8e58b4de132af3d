/** JSON lines of an export: rows with their position in the chain, and checkpoints. */
import { canonicalJson } from '../../canonical-json.ts';
import type { Checkpoint } from './checkpoint.ts';
import { readRawMembers } from './raw-members.ts';
import type { RowText } from './row-hash.ts';
import { epochOf, isoOf } from './row-time.ts';

export interface RowRecord {
  type: 'row';
  /** The checkpoint that seals the row, and the row's number in the chain of its layer. */
  checkpoint: number;
  number: number;
  hash: string;
  row: RowText;
}

export interface CheckpointRecord extends Checkpoint {
  type: 'checkpoint';
  position: number;
  hash: string;
  /** The packed sealed rows by partition, base64. */
  entries: Record<string, string>;
}

export type ExportRecord = RowRecord | CheckpointRecord;

const plainColumns = [
  'layer',
  'kind',
  'summary',
  'node_id',
  'node_instance_id',
  'correlation_id',
  'allocation_id',
  'workflow_id',
  'origin',
] as const satisfies readonly (keyof RowText)[];

/** Inserts `data` and `actor` as the database wrote them: the hash covers their exact text. */
export function jsonLine(record: ExportRecord): string {
  if (record.type === 'checkpoint') return canonicalJson(record);
  const { row, checkpoint, number, hash } = record;
  const head = {
    type: 'row',
    partition: row.layer,
    checkpoint,
    number,
    cursor: `${row.xid}-${row.seq}`,
    hash,
    at: isoOf(row.at),
    ...Object.fromEntries(plainColumns.map((column) => [column, row[column]])),
  };
  return `${JSON.stringify(head).slice(0, -1)},"actor":${row.actor ?? 'null'},"data":${row.data}}`;
}

const isText = (value: unknown): value is string => typeof value === 'string';

function readRow(raw: Map<string, string>): RowRecord | undefined {
  const value = (name: string): unknown => JSON.parse(raw.get(name) ?? 'null');
  const cursor = value('cursor');
  const [, xid, seq] = (isText(cursor) && /^(\d+)-(\d+)$/.exec(cursor)) || [];
  const at = value('at');
  const hash = value('hash');
  const data = raw.get('data');
  const columns = Object.fromEntries(plainColumns.map((column) => [column, value(column) ?? null]));
  const isComplete =
    xid !== undefined &&
    seq !== undefined &&
    isText(at) &&
    isText(hash) &&
    data !== undefined &&
    value('partition') === columns.layer &&
    ['layer', 'kind', 'summary', 'origin'].every((name) => isText(columns[name])) &&
    Object.values(columns).every((each) => each === null || isText(each));
  if (!isComplete) return undefined;
  const actor = raw.get('actor') ?? 'null';
  return {
    type: 'row',
    checkpoint: Number(value('checkpoint')),
    number: Number(value('number')),
    hash,
    row: { ...columns, xid, seq, at: epochOf(at), data, actor: actor === 'null' ? null : actor } as unknown as RowText,
  };
}

function readCheckpointRecord(raw: Map<string, string>): CheckpointRecord | undefined {
  const value = (name: string): unknown => JSON.parse(raw.get(name) ?? 'null');
  const [body, signature, hash, entries] = ['body', 'signature', 'hash', 'entries'].map(value);
  if (!isText(body) || !isText(signature) || !isText(hash) || typeof entries !== 'object' || entries === null)
    return undefined;
  if (!Object.values(entries).every(isText)) return undefined;
  return {
    type: 'checkpoint',
    position: Number(value('position')),
    body,
    signature,
    hash,
    entries: entries as Record<string, string>,
  };
}

/** Returns undefined if the line is not a record. */
export function readJsonLine(line: string): ExportRecord | undefined {
  const raw = readRawMembers(line);
  if (raw?.get('type') === '"row"') return readRow(raw);
  if (raw?.get('type') === '"checkpoint"') return readCheckpointRecord(raw);
  return undefined;
}
