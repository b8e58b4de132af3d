/** Describes sequences that broke an invariant: their log, and the evidence in the store. */
import type { Database } from '../../../src/store/pg/database.ts';
import type { Violation } from './invariants.ts';

interface FactRow {
  at: Date;
  layer: string;
  kind: string;
  summary: string;
  id: string;
}

const factsOf = `
  select at, layer, kind, summary, coalesce(node_id, allocation_id) as id
  from evidence
  where node_id = $1
    or allocation_id = $1
    or node_id = (select node_id from allocations where allocation_id = $1)
    or allocation_id in (select allocation_id from allocations where node_id = $1)
  order by xid, seq`;

/** The facts about the first violation of each invariant. Read before the store is dropped. */
export async function recordOf(db: Database, violations: readonly Violation[]): Promise<Map<string, string[]>> {
  const record = new Map<string, string[]>();
  for (const { id } of firstOfEach(violations)) {
    const facts = await db.query<FactRow>(factsOf, [id]);
    record.set(
      id,
      facts.map((fact) => `${fact.at.toISOString()} ${fact.id} ${fact.layer} ${fact.kind}: ${fact.summary}`),
    );
  }
  return record;
}

export const firstOfEach = (violations: readonly Violation[]): Violation[] => [
  ...new Map(violations.toReversed().map((each) => [each.invariant, each])).values(),
];

const indented = (lines: readonly string[]) => lines.map((line) => `    ${line}`).join('\n');

export function describeViolations(
  violations: readonly Violation[],
  logs: ReadonlyMap<number, string[]>,
  record: ReadonlyMap<string, string[]>,
): string {
  const described = new Set<string>();
  return firstOfEach(violations)
    .map((violation) => {
      const alike = violations.filter(({ invariant }) => invariant === violation.invariant);
      const broken = [
        `BROKEN: ${violation.invariant} (${alike.length} times)`,
        `  sequence ${violation.sequence}, ${violation.id}: ${violation.what}`,
      ];
      if (described.has(violation.id)) return broken.join('\n');
      described.add(violation.id);
      return [
        ...broken,
        '  log:',
        indented(logs.get(violation.sequence) ?? []),
        '  evidence:',
        indented(record.get(violation.id) ?? []),
      ].join('\n');
    })
    .join('\n\n');
}
