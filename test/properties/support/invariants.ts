/**
 * Checks the invariants of the model on all rows and on every fact of a round. The facts of a round
 * that change rows are first copied into the table `changes`; each query then selects violations.
 */
import { rebuildAllocations, rebuildNodes } from '../../../src/store/history/projection.ts';
import type { Database } from '../../../src/store/pg/database.ts';
import { verifyCounts } from '../../../src/store/rows/counts.ts';
import { historyInvariants } from './history-invariants.ts';
import { modelEdges } from './model.ts';
import type { Round } from './sequences.ts';
import { statusInvariants } from './status-invariants.ts';
import { sequenceIndexOf } from './views.ts';

export interface Violation {
  invariant: string;
  sequence: number;
  id: string;
  what: string;
}

/** Counts of what happened. */
export interface Figures {
  /** As `entity from → to by cause`. */
  edges: Record<string, number>;
  /** Verdicts that were held, or only recorded because their pool is observe-only. */
  withheld: Record<string, number>;
}

export interface InvariantChecks {
  check(at: Date, round: Round): Promise<Violation[]>;
  /** Runs once at the end: compares rows with their facts, and facts with what they were. */
  checkHistory(): Promise<Violation[]>;
  figures(): Promise<Figures>;
}

const scratch = `
  create unlogged table changes (
    xid xid8, seq bigint, round int, entity text, id text, pool text, name text, by text,
    "from" text, "to" text, at timestamptz, actor boolean, sets jsonb, evidence jsonb,
    gap text, instance text, node text);
  create index changes_by_node on changes (node, at) where entity = 'allocation';
  create index changes_by_id on changes (id, xid, seq);
  create index changes_by_round on changes (round);
  create unlogged table edges (entity text, "from" text, "to" text, by text);
  create unlogged table prints (round int, facts bigint, print numeric, first xid8, last xid8)`;

/** $1 is the first transaction of the round, $2 its number. */
const copyRound = `
  insert into changes
  select fact.xid, fact.seq, $2, split_part(fact.kind, '.', 1),
    case when fact.kind like 'node.%' then fact.node_id else fact.allocation_id end,
    coalesce(node.pool, allocation.pool), node.name,
    fact.data ->> 'by', fact.data ->> 'from', fact.data ->> 'to', fact.at,
    fact.actor is not null, fact.data -> 'set', fact.data -> 'evidence',
    fact.data ->> 'gap', fact.node_instance_id, fact.node_id
  from evidence fact
  left join nodes node on fact.kind like 'node.%' and node.node_id = fact.node_id
  left join allocations allocation
    on fact.kind like 'allocation.%' and allocation.allocation_id = fact.allocation_id
  where fact.xid >= $1::xid8
    and fact.data ? 'set'
    and (fact.kind like 'node.%' or fact.kind like 'allocation.%')`;

const printSql = `
  select count(*) as facts, coalesce(sum(hashtextextended(fact::text, 0)::numeric), 0) as print
  from evidence fact
  where xid >= $1::xid8
    and xid < $2::xid8`;

type Row = { id: string; pool: string; name: string | null; what: string };

const violationOf =
  (invariant: string) =>
  (row: Row): Violation => ({
    invariant,
    sequence: sequenceIndexOf(row),
    id: row.id,
    what: row.what,
  });

export async function openInvariantChecks(db: Database): Promise<InvariantChecks> {
  for (const statement of scratch.split(';')) await db.query(statement);
  await db.query(
    `insert into edges
     select * from jsonb_to_recordset($1::jsonb) as edge(entity text, "from" text, "to" text, by text)`,
    [JSON.stringify(modelEdges)],
  );
  // Transaction ids bound every round.
  const nextXid = async () =>
    (await db.query<{ xid: string }>('select pg_current_xact_id()::text as xid'))[0]?.xid ?? '0';
  let number = 0;
  let first = await nextXid();

  return {
    async check(at, round) {
      const last = await nextXid();
      await db.query(copyRound, [first, number]);
      await db.query(`insert into prints select $3, print.*, $1::xid8, $2::xid8 from (${printSql}) print`, [
        first,
        last,
        number,
      ]);
      first = last;
      const found: Violation[] = [];
      for (const { invariant, sql, unless } of [...statusInvariants, ...historyInvariants]) {
        if (unless?.(round)) continue;
        const rows = await db.query<Row>(`with parameters as (select $1::timestamptz as at, $2::int as round) ${sql}`, [
          at,
          number,
        ]);
        found.push(...rows.map(violationOf(invariant)));
      }
      number++;
      return found;
    },

    async checkHistory() {
      const changed = await db.query<{ round: number }>(
        `select prints.round
         from prints,
         lateral (${printSql.replace('$1::xid8', 'prints.first').replace('$2::xid8', 'prints.last')}) print
         where print.facts <> prints.facts
           or print.print <> prints.print`,
      );
      const shrunk = changed.map(({ round }) => ({
        invariant: 'evidence never shrinks and never changes',
        sequence: -1,
        id: 'evidence',
        what: `the facts of round ${round} changed`,
      }));
      const miscounted = (await verifyCounts(db)).map((wrong) => ({
        invariant: 'counts equal the rows',
        sequence: -1,
        id: `${wrong.of} ${wrong.pool} ${wrong.status}`,
        what: `counted ${wrong.counted}, there are ${wrong.there_are}`,
      }));
      return [
        ...shrunk,
        ...miscounted,
        ...(await differing(db, 'nodes', 'node_id', await rebuildNodes(db))),
        ...(await differing(db, 'allocations', 'allocation_id', await rebuildAllocations(db))),
      ];
    },

    async figures() {
      const count = async (sql: string) => {
        const rows = await db.query<{ what: string; times: number }>(sql);
        return Object.fromEntries(rows.map(({ what, times }) => [what, times]));
      };
      return {
        edges: await count(
          `select entity || ' ' || "from" || ' → ' || "to" || ' by ' || by as what, count(*)::int as times
           from changes
           where "to" is not null
             and sets ? 'status'
           group by 1`,
        ),
        withheld: await count(
          `select case when sets ->> 'held' is not null then 'held' else 'observed' end as what,
             count(*)::int as times
           from changes
           where (sets ->> 'held' is not null or sets ->> 'would_have' is not null)
             and not sets ? 'status'
           group by 1`,
        ),
      };
    },
  };
}

/** Rows that differ from what their facts rebuild. */
async function differing(
  db: Database,
  table: 'nodes' | 'allocations',
  key: string,
  rebuilt: object[],
): Promise<Violation[]> {
  const rows = await db.query<Record<string, unknown>>(`select * from ${table} order by ${key}`);
  const expected = new Map(
    rebuilt.map((row) => [(row as Record<string, unknown>)[key], row as Record<string, unknown>]),
  );
  return rows.flatMap((row) => {
    const projected = expected.get(row[key]);
    const wrong = Object.keys(row).filter(
      (column) => JSON.stringify(row[column]) !== JSON.stringify(projected?.[column]),
    );
    if (wrong.length === 0) return [];
    const what = wrong.map(
      (column) =>
        `${column}: the row says ${JSON.stringify(row[column])}, its facts ${JSON.stringify(projected?.[column])}`,
    );
    const place = row as { pool: string; name: string | null };
    return [
      {
        invariant: 'rows equal the projection of their facts',
        sequence: sequenceIndexOf(place),
        id: String(row[key]),
        what: what.join('; '),
      },
    ];
  });
}
