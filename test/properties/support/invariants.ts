/**
 * Checks the invariants of the model on all rows and on all evidence of a round. The evidence that
 * changed a row is first copied into the table `changes`; each query then selects violations.
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
  detail: string;
}

/** Counts of changes and of withheld verdicts. */
export interface Figures {
  /** How often each edge was used; the key is `entity from → to by cause`. */
  edges: Record<string, number>;
  /** Verdicts that were held, or only recorded because their pool is observe-only. */
  withheld: Record<string, number>;
}

export interface InvariantChecks {
  check(at: Date, round: Round): Promise<Violation[]>;
  /**
   * Runs once at the end. Checks that rows equal the projection of their evidence, that counts
   * equal the rows, and that no evidence changed since it was recorded.
   */
  checkHistory(): Promise<Violation[]>;
  readFigures(): Promise<Figures>;
}

const createTables = `
  create unlogged table changes (
    xid xid8, seq bigint, round int, entity text, id text, pool text, name text, by text,
    "from" text, "to" text, at timestamptz, actor boolean, sets jsonb, evidence jsonb,
    gap text, instance text, node text);
  create index changes_by_node on changes (node, at) where entity = 'allocation';
  create index changes_by_id on changes (id, xid, seq);
  create index changes_by_round on changes (round);
  create unlogged table edges (entity text, "from" text, "to" text, by text);
  create unlogged table fingerprints (round int, facts bigint, fingerprint numeric, first xid8, last xid8)`;

/** $1 is the first transaction of the round, $2 the number of the round. */
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

/** Hashes the evidence of a round, so that a later change or deletion of a row is noticed. */
const fingerprintSql = `
  select count(*) as facts, coalesce(sum(hashtextextended(fact::text, 0)::numeric), 0) as fingerprint
  from evidence fact
  where xid >= $1::xid8
    and xid < $2::xid8`;

type Row = { id: string; pool: string; name: string | null; detail: string };

const violationOf =
  (invariant: string) =>
  (row: Row): Violation => ({
    invariant,
    sequence: sequenceIndexOf(row),
    id: row.id,
    detail: row.detail,
  });

export async function openInvariantChecks(db: Database): Promise<InvariantChecks> {
  for (const statement of createTables.split(';')) await db.query(statement);
  await db.query(
    `insert into edges
     select * from jsonb_to_recordset($1::jsonb) as edge(entity text, "from" text, "to" text, by text)`,
    [JSON.stringify(modelEdges)],
  );
  // A round consists of the transactions between two of these ids.
  const nextXid = async () =>
    (await db.query<{ xid: string }>('select pg_current_xact_id()::text as xid'))[0]?.xid ?? '0';
  let number = 0;
  let firstXid = await nextXid();

  return {
    async check(at, round) {
      const lastXid = await nextXid();
      await db.query(copyRound, [firstXid, number]);
      await db.query(
        `insert into fingerprints select $3, hashed.*, $1::xid8, $2::xid8 from (${fingerprintSql}) hashed`,
        [firstXid, lastXid, number],
      );
      firstXid = lastXid;
      const violations: Violation[] = [];
      for (const { invariant, sql, unless } of [...statusInvariants, ...historyInvariants]) {
        if (unless?.(round)) continue;
        const rows = await db.query<Row>(`with parameters as (select $1::timestamptz as at, $2::int as round) ${sql}`, [
          at,
          number,
        ]);
        violations.push(...rows.map(violationOf(invariant)));
      }
      number++;
      return violations;
    },

    async checkHistory() {
      const currentSql = fingerprintSql
        .replace('$1::xid8', 'fingerprints.first')
        .replace('$2::xid8', 'fingerprints.last');
      const changedRounds = await db.query<{ round: number }>(
        `select fingerprints.round
         from fingerprints,
         lateral (${currentSql}) recomputed
         where recomputed.facts <> fingerprints.facts
           or recomputed.fingerprint <> fingerprints.fingerprint`,
      );
      const changedEvidence = changedRounds.map(({ round }) => ({
        invariant: 'evidence: no row changes or disappears',
        sequence: -1,
        id: 'evidence',
        detail: `the evidence of round ${round} changed`,
      }));
      const wrongCounts = (await verifyCounts(db)).map((wrong) => ({
        invariant: 'counts: each count equals the number of rows',
        sequence: -1,
        id: `${wrong.of} ${wrong.pool} ${wrong.status}`,
        detail: `counted ${wrong.counted}, there are ${wrong.there_are}`,
      }));
      return [
        ...changedEvidence,
        ...wrongCounts,
        ...(await findDifferingRows(db, 'nodes', 'node_id', await rebuildNodes(db))),
        ...(await findDifferingRows(db, 'allocations', 'allocation_id', await rebuildAllocations(db))),
      ];
    },

    async readFigures() {
      const count = async (sql: string) => {
        const rows = await db.query<{ name: string; times: number }>(sql);
        return Object.fromEntries(rows.map(({ name, times }) => [name, times]));
      };
      return {
        edges: await count(
          `select entity || ' ' || "from" || ' → ' || "to" || ' by ' || by as name, count(*)::int as times
           from changes
           where "to" is not null
             and sets ? 'status'
           group by 1`,
        ),
        withheld: await count(
          `select case when sets ->> 'held' is not null then 'held' else 'observe-only' end as name,
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

/** Finds rows that differ from the projection of their evidence. */
async function findDifferingRows(
  db: Database,
  table: 'nodes' | 'allocations',
  key: string,
  rebuilt: object[],
): Promise<Violation[]> {
  const rows = await db.query<Record<string, unknown>>(`select * from ${table} order by ${key}`);
  const projectedRows = new Map(
    rebuilt.map((row) => [(row as Record<string, unknown>)[key], row as Record<string, unknown>]),
  );
  return rows.flatMap((row) => {
    const projectedRow = projectedRows.get(row[key]);
    const wrongColumns = Object.keys(row).filter(
      (column) => JSON.stringify(row[column]) !== JSON.stringify(projectedRow?.[column]),
    );
    if (wrongColumns.length === 0) return [];
    const details = wrongColumns.map(
      (column) =>
        `${column}: ${JSON.stringify(row[column])} in the row, ${JSON.stringify(projectedRow?.[column])} by its evidence`,
    );
    const owner = row as { pool: string; name: string | null };
    return [
      {
        invariant: 'projection: each row equals the projection of its evidence',
        sequence: sequenceIndexOf(owner),
        id: String(row[key]),
        detail: details.join('; '),
      },
    ];
  });
}
