/**
 * Writes and reads evidence: append-only facts. A fact is written in the transaction that it
 * describes. Readers get facts in commit order.
 */
import type { KnownIds } from '../../base/ids.ts';
import type { Actor, Evidence, EvidenceLayer } from '../../contract/evidence/evidence.ts';
import { type EvidenceKind, isReservedKind, originOf } from '../../contract/evidence/evidence-kinds.ts';
import type { Page } from '../../contract/primitives.ts';
import type { Origin, OutsideOrigin } from '../../lifecycle/explain/evidence-origins.ts';
import type { Visibility } from '../../lifecycle/visibility.ts';
import type { Queryable } from '../pg/database.ts';
import { redactFacts } from '../pg/redacted-rows.ts';
import type { Bind } from '../pg/walk.ts';
import { andAll, ofOwnAllocation, ownFacts } from '../visibility.ts';
import { type Cursor, formatCursor, isSettledSql, parseCursor } from './commit-order.ts';
import { recordedByServerSql } from './own-facts.ts';

export interface Fact extends KnownIds {
  at: Date;
  layer: EvidenceLayer;
  kind: EvidenceKind;
  summary: string;
  data?: Record<string, unknown>;
  actor?: Actor | null;
  /** Set where text from an outside program is recorded in a layer other than `node`. */
  origin?: 'report';
}

/** A fact whose kind and text come from outside the server. */
export interface OutsideRow extends Omit<Fact, 'kind' | 'origin'> {
  kind: string;
}

const insertSql = `
  insert into evidence (
    at, layer, kind, summary, data, actor,
    node_id, node_instance_id, correlation_id, allocation_id, workflow_id, origin)
  select at, layer, kind, summary, coalesce(data, '{}'), actor,
    node_id, node_instance_id, correlation_id, allocation_id, workflow_id, origin
  from jsonb_to_recordset($1::jsonb) as fact(
    at timestamptz, layer text, kind text, summary text, data jsonb, actor jsonb,
    node_id text, node_instance_id text, correlation_id text, allocation_id text, workflow_id text, origin text)`;

async function insertFacts(db: Queryable, facts: readonly (OutsideRow & { origin: Origin })[]): Promise<void> {
  if (facts.length === 0) return;
  const rows = redactFacts(db.redact, facts);
  db.account?.charge(facts.length, Buffer.byteLength(rows));
  await db.query(insertSql, [rows], { prepared: true });
  db.markEvidenceWritten();
}

/** Redacts secrets in the facts and writes them in one statement. */
export const recordEvidence = (db: Queryable, facts: readonly Fact[]): Promise<void> =>
  insertFacts(
    db,
    facts.map((fact) => ({ ...fact, origin: fact.origin ?? originOf(fact) })),
  );

/**
 * Writes facts from outside the server. Checks again that no kind is reserved for the server, in
 * case a caller forgot to.
 */
export async function recordOutsideFacts(
  db: Queryable,
  origin: OutsideOrigin,
  facts: readonly OutsideRow[],
): Promise<void> {
  const reserved = facts.find(({ kind }) => isReservedKind(kind));
  if (reserved) throw new Error(`evidence kind ${reserved.kind} is reserved for the server`);
  await insertFacts(
    db,
    facts.map((fact) => ({ ...fact, origin })),
  );
}

export interface EvidenceRow extends Omit<Evidence, 'cursor' | 'at'> {
  xid: string;
  seq: string;
  at: Date;
}

export const evidenceColumns = `
  xid::text as xid, seq::text as seq, at, layer, kind, summary, data, actor,
  node_id, node_instance_id, correlation_id, allocation_id, workflow_id, origin`;

export const toWire = ({ xid, seq, at, ...rest }: EvidenceRow): Evidence => ({
  cursor: formatCursor({ xid, seq }),
  at: at.toISOString(),
  ...rest,
});

/** Limits a read to the partitions of a time range. */
export interface TimeRange {
  since: Date;
  until: Date;
}

/**
 * Reads the facts after `cursor`, oldest first. `withheld` is true if more facts exist, but a
 * running transaction may still add facts before them.
 */
export async function readAfter(
  db: Pick<Queryable, 'query'>,
  cursor: Cursor,
  limit: number,
  range?: TimeRange,
): Promise<{ items: Evidence[]; withheld: boolean }> {
  const values: unknown[] = [cursor.xid, cursor.seq];
  if (range) values.push(range.since, range.until);
  const rows = await db.query<EvidenceRow & { is_settled: boolean }>(
    `select ${evidenceColumns}, ${isSettledSql} as is_settled
     from evidence
     where (xid, seq) > ($1::xid8, $2::bigint)
       ${range ? 'and at >= $3 and at < $4' : ''}
     order by evidence.xid, evidence.seq
     limit ${limit}`,
    values,
    // Prepared, because this runs after every commit, and planning over all partitions takes ten
    // times as long as reading.
    { prepared: true },
  );
  const readable = rows.filter((row) => row.is_settled);
  return { items: readable.map(({ is_settled: _, ...row }) => toWire(row)), withheld: readable.length < rows.length };
}

/** Selects the facts that a stream reader requested and may see. */
export interface VisibleEvidenceFilter {
  visibility: Visibility;
  node_id?: string;
  allocation_id?: string;
  workflow_id?: string;
}

export interface VisiblePage {
  items: Evidence[];
  /** The next page starts after this: the last item of a full page, else the last scanned fact. */
  reached: Cursor;
  more: boolean;
}

/** A tenant's page scans at most this many facts per item of the page. */
const scannedPerItem = 4;
const idColumns = ['node_id', 'allocation_id', 'workflow_id'] as const;

/**
 * Reads the visible facts after `cursor`, oldest first. Each page scans a bounded number of facts.
 */
export async function readVisibleAfter(
  db: Pick<Queryable, 'query'>,
  cursor: Cursor,
  filter: VisibleEvidenceFilter,
  limit: number,
): Promise<VisiblePage> {
  const values: unknown[] = [cursor.xid, cursor.seq];
  const bind: Bind = (value) => `$${values.push(value)}`;
  const wanted = idColumns.flatMap((column) =>
    filter[column] === undefined ? [] : [`${column} = ${bind(filter[column])}`],
  );
  const own = ofOwnAllocation(filter.visibility, 'scanned', bind);
  const maxScanned = own.length === 0 ? limit : scannedPerItem * limit;
  const rows = await db.query<EvidenceRow & { end_xid: string; end_seq: string; scanned_rows: number }>(
    `with scanned as materialized (
       select *
       from evidence
       where (xid, seq) > ($1::xid8, $2::bigint)
         -- A running transaction may still add facts before later ones.
         and ${isSettledSql}
         ${andAll(wanted)}
       order by evidence.xid, evidence.seq
       limit ${maxScanned}
     ),
     visible as (
       select *
       from scanned
       where true ${andAll(own)}
       order by scanned.xid, scanned.seq
       limit ${limit}
     ),
     last as (
       select xid::text as end_xid, seq::text as end_seq, (count(*) over ())::int as scanned_rows
       from scanned
       order by scanned.xid desc, scanned.seq desc
       limit 1
     )
     select ${evidenceColumns}, end_xid, end_seq, scanned_rows
     from last
     left join visible on true
     order by visible.xid, visible.seq`,
    values,
    { prepared: true },
  );
  const [first] = rows;
  if (!first) return { items: [], reached: cursor, more: false };
  const { end_xid, end_seq, scanned_rows } = first;
  const items = rows
    .filter((row) => row.xid !== null)
    .map(({ end_xid: _, end_seq: __, scanned_rows: ___, ...row }) => toWire(row));
  const isFull = items.length === limit;
  const end = isFull ? parseCursor(items.at(-1)?.cursor ?? '') : undefined;
  return { items, reached: end ?? { xid: end_xid, seq: end_seq }, more: isFull || scanned_rows === maxScanned };
}

export interface EvidenceFilter {
  node_id?: string;
  node_instance_id?: string;
  correlation_id?: string;
  allocation_id?: string;
  workflow_id?: string;
  layer?: string;
  kind?: string;
  /** Selects facts of any of these kinds that the server itself recorded. */
  kinds?: readonly EvidenceKind[];
  /**
   * The predicate of a partial index on (node_id, xid, seq), worded as in the index so that the
   * planner uses it. Requires `node_id`, and selects only facts that the server itself recorded.
   */
  partial_index?: string;
  /** Scans at most this many facts of `partial_index` before the other filters apply. */
  max_scanned?: number;
  since?: string;
  until?: string;
  /** Selects only facts with an actor. */
  audited?: boolean;
  /** The audit filters match any of the fields listed in `audit`. */
  target_id?: string;
  actor?: string;
  action?: string;
  code?: string;
  visibility: Visibility;
  order?: 'newest' | 'oldest';
  limit: number;
  cursor?: Cursor;
}

/**
 * The columns and fields in which a fact may store each audit value. None of them is indexed; the
 * partial index on facts with an actor bounds the scan.
 */
const audit = {
  target_id: [
    `data ->> 'target_id'`,
    `data #>> '{params,id}'`,
    `data ->> 'pool'`,
    `data #>> '{params,pool}'`,
    `data ->> 'residue_id'`,
    'node_id',
    'node_instance_id',
    'allocation_id',
    'workflow_id',
    'correlation_id',
  ],
  actor: [`actor ->> 'id'`, `actor ->> 'name'`],
  action: [`data ->> 'action'`, `data ->> 'operation'`],
  code: [`data ->> 'code'`],
} as const;
const auditFilters = Object.keys(audit) as (keyof typeof audit)[];

/**
 * Selects the facts of one instance by two conditions, because no single index covers them. Rules
 * write hundreds of facts at once, so facts of rules are indexed by node only, not by instance.
 */
const instanceConditions = (id: string): string[] => [
  `node_instance_id = ${id}
   and layer <> 'rule'`,
  `node_instance_id = ${id}
   and layer = 'rule'
   and node_id = (select node_id from instances where node_instance_id = ${id})`,
];

/** The conditions of a filter that no index serves. */
export function unindexedConditions(filter: EvidenceFilter, bind: Bind): string[] {
  const where: string[] = [];
  for (const column of ['layer', 'kind'] as const)
    if (filter[column] !== undefined) where.push(`${column} = ${bind(filter[column])}`);
  // A query for a reserved kind must not return facts from outside the server.
  if (filter.kind && isReservedKind(filter.kind)) where.push(recordedByServerSql('evidence'));
  for (const name of auditFilters)
    if (filter[name] !== undefined) where.push(`${bind(filter[name])} in (${audit[name].join(', ')})`);
  if (filter.kinds) where.push(`kind = any(${bind(filter.kinds)})`);
  if (filter.kinds || filter.partial_index) where.push(recordedByServerSql('evidence'));
  if (filter.partial_index && filter.node_instance_id !== undefined)
    where.push(`node_instance_id = ${bind(filter.node_instance_id)}`);
  if (filter.audited) where.push('actor is not null');
  return [...where, ...ownFacts(filter.visibility, filter.allocation_id, bind)];
}

/**
 * The conditions of a filter that an index or the partitioning serves. Each returned list must be
 * read by a select of its own.
 */
function indexedConditions(filter: EvidenceFilter, bind: Bind): string[][] {
  const where = [isSettledSql];
  for (const column of ['node_id', 'correlation_id', 'allocation_id', 'workflow_id'] as const)
    if (filter[column] !== undefined) where.push(`${column} = ${bind(filter[column])}`);
  if (filter.since) where.push(`at >= ${bind(filter.since)}::timestamptz`);
  if (filter.until) where.push(`at < ${bind(filter.until)}::timestamptz`);
  if (filter.cursor) {
    const { xid, seq } = filter.cursor;
    where.push(`(xid, seq) ${filter.order === 'oldest' ? '>' : '<'} (${bind(xid)}::xid8, ${bind(seq)}::bigint)`);
  }
  if (filter.node_instance_id === undefined || filter.partial_index) return [where];
  return instanceConditions(bind(filter.node_instance_id)).map((condition) => [...where, condition]);
}

const orderSql = ({ order }: EvidenceFilter, count: number): string => {
  const direction = order === 'oldest' ? 'asc' : 'desc';
  return `
    order by evidence.xid ${direction}, evidence.seq ${direction}
    limit ${count}`;
};

/** SQL for at most `count` facts that match the indexed conditions of a filter, and `extra`. */
export function indexedSql(filter: EvidenceFilter, count: number, bind: Bind, extra: readonly string[] = []): string {
  const ordered = orderSql(filter, count);
  const selects = indexedConditions(filter, bind).map(
    (where) => `
      select *
      from evidence
      where ${[...where, ...extra].join(' and ')}
      ${ordered}`,
  );
  const [only = ''] = selects;
  if (selects.length === 1) return only;
  return `
    select *
    from (${selects.map((select) => `(${select})`).join(' union all ')}) evidence
    ${ordered}`;
}

function timelineSql(filter: EvidenceFilter, count: number, bind: Bind): string {
  const index = filter.partial_index ? [filter.partial_index] : [];
  const matches = unindexedConditions(filter, bind);
  const ordered = orderSql(filter, count);
  if (!filter.max_scanned) {
    const matching = indexedSql(filter, count, bind, [...index, ...matches]);
    return `
      select ${evidenceColumns}
      from (${matching}) evidence
      ${ordered}`;
  }
  const scanned = indexedSql(filter, filter.max_scanned, bind, index);
  return `
    select ${evidenceColumns}
    from (${scanned}) evidence
    where ${matches.join(' and ')}
    ${ordered}`;
}

export async function readTimeline(db: Queryable, filter: EvidenceFilter): Promise<Page<Evidence>> {
  const values: unknown[] = [];
  const text = timelineSql(filter, filter.limit + 1, (value) => `$${values.push(value)}`);
  const rows = await db.query<EvidenceRow>(text, values);
  const items = rows.slice(0, filter.limit).map(toWire);
  return { items, next_cursor: rows.length > filter.limit ? (items.at(-1)?.cursor ?? null) : null };
}

/**
 * Reads the facts of several filters in one prepared statement, because planning over every
 * partition takes longer than reading a few facts. The statement text depends on the filter fields
 * and limits, so callers should pass the same ones each time.
 */
export async function readTimelines(db: Queryable, filters: readonly EvidenceFilter[]): Promise<Evidence[][]> {
  const values: unknown[] = [];
  const parts = filters.map(
    (filter, index) =>
      `(select ${index} as part, * from (${timelineSql(filter, filter.limit, (value) => `$${values.push(value)}`)}) part_${index})`,
  );
  const rows = await db.query<EvidenceRow & { part: number }>(parts.join(' union all '), values, { prepared: true });
  return filters.map((_, index) =>
    rows.filter(({ part }) => part === index).map(({ part: _part, ...row }) => toWire(row)),
  );
}
