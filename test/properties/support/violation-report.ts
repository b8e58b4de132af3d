/** Describes sequences that broke an invariant, with their log and the evidence in the store. */
import type { Database } from '../../../src/store/pg/database.ts';
import type { Violation } from './invariants.ts';

interface EvidenceRow {
  at: Date;
  layer: string;
  kind: string;
  summary: string;
  id: string;
}

const evidenceSql = `
  select at, layer, kind, summary, coalesce(node_id, allocation_id) as id
  from evidence
  where node_id = $1
    or allocation_id = $1
    or node_id = (select node_id from allocations where allocation_id = $1)
    or allocation_id in (select allocation_id from allocations where node_id = $1)
  order by xid, seq`;

/**
 * Reads the evidence about the first violation of each invariant. Call it before the database is
 * dropped.
 */
export async function readEvidence(db: Database, violations: readonly Violation[]): Promise<Map<string, string[]>> {
  const evidence = new Map<string, string[]>();
  for (const { id } of firstOfEach(violations)) {
    const rows = await db.query<EvidenceRow>(evidenceSql, [id]);
    evidence.set(
      id,
      rows.map((row) => `${row.at.toISOString()} ${row.id} ${row.layer} ${row.kind}: ${row.summary}`),
    );
  }
  return evidence;
}

export const firstOfEach = (violations: readonly Violation[]): Violation[] => [
  ...new Map(violations.toReversed().map((violation) => [violation.invariant, violation])).values(),
];

const indent = (lines: readonly string[]) => lines.map((line) => `    ${line}`).join('\n');

export function describeViolations(
  violations: readonly Violation[],
  logs: ReadonlyMap<number, string[]>,
  evidence: ReadonlyMap<string, string[]>,
): string {
  const describedIds = new Set<string>();
  return firstOfEach(violations)
    .map((violation) => {
      const sameKind = violations.filter(({ invariant }) => invariant === violation.invariant);
      const heading = [
        `BROKEN: ${violation.invariant} (violations: ${sameKind.length})`,
        `  sequence ${violation.sequence}, ${violation.id}: ${violation.detail}`,
      ];
      if (describedIds.has(violation.id)) return heading.join('\n');
      describedIds.add(violation.id);
      return [
        ...heading,
        '  log:',
        indent(logs.get(violation.sequence) ?? []),
        '  evidence:',
        indent(evidence.get(violation.id) ?? []),
      ].join('\n');
    })
    .join('\n\n');
}
