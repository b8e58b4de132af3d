/**
 * Renders rows as JSON for a statement and redacts only columns that hold free text. Ids, codes,
 * statuses and field names stay as they are.
 */
import type { Redactor } from '../../base/redaction/redact.ts';

/** Columns of nodes and allocations that hold free text from machines, people or programs. */
export const textColumns = [
  'name',
  'zone',
  'endpoint',
  'reason',
  'reported_status',
  'observed_state',
  'held',
  'verdict',
  'would_have',
  'waiting_for',
  'prerequisites',
  'labels',
] as const;

type Json = Record<string, unknown>;

const isRecord = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Passes the column's name along, because the name alone may mark the value as secret. */
const redactValue = (redact: Redactor, name: string, value: unknown): unknown => redact.value({ [name]: value })[name];

function redactColumns(redact: Redactor, row: Json, columns: readonly string[]): Json {
  const redacted = { ...row };
  for (const column of columns) {
    const [name = '', inner] = column.split('.', 2);
    const value = redacted[name];
    if (value === undefined || value === null) continue;
    if (inner === undefined) redacted[name] = redactValue(redact, name, value);
    else if (isRecord(value)) redacted[name] = redactColumns(redact, value, [inner]);
  }
  return redacted;
}

/** A column `actor.name` is the field `name` of the JSON column `actor`. */
export function redactRows(redact: Redactor, rows: readonly object[], columns: readonly string[]): string {
  const json = JSON.stringify(rows);
  if (!redact.mayContain(json)) return json;
  return JSON.stringify((JSON.parse(json) as Json[]).map((row) => redactColumns(redact, row, columns)));
}

/** Facts about these have the changed columns of their row in `set`; see history/projection.ts. */
const rowNouns: ReadonlySet<unknown> = new Set(['node', 'allocation']);

/**
 * Any caller may put a `set` into a fact. Only in the server's own facts does it hold columns of a
 * row.
 */
const describesRow = ({ kind, origin }: Json): boolean =>
  origin === 'internal' && rowNouns.has(String(kind).split('.', 1)[0]);

/**
 * Redacts `set` exactly like its row, because otherwise the two would differ. Other data is
 * redacted at every depth.
 */
function redactFact(redact: Redactor, fact: Json): Json {
  const redacted = redactColumns(redact, fact, ['summary', 'data', 'actor.name']);
  if (!describesRow(fact)) return redacted;
  const set = isRecord(fact.data) ? fact.data.set : undefined;
  return isRecord(redacted.data) && isRecord(set)
    ? { ...redacted, data: { ...redacted.data, set: redactColumns(redact, set, textColumns) } }
    : redacted;
}

export function redactFacts(redact: Redactor, facts: readonly object[]): string {
  const json = JSON.stringify(facts);
  if (!redact.mayContain(json)) return json;
  return JSON.stringify((JSON.parse(json) as Json[]).map((fact) => redactFact(redact, fact)));
}
