/**
 * Compares a slice of the rows with their evidence per pass, and notes differences. Decides
 * nothing.
 */
import { secondsLater } from '../../base/clock.ts';
import { newFindingId } from '../../base/ids.ts';
import { type ComparedTable, compareSlice } from '../../store/history/row-comparison.ts';
import { endFindings, noteDisagreements, standingFindings } from '../../store/rows/findings.ts';
import type { SweepServices } from '../runner/services.ts';

/** With this slice, ten thousand nodes take three to four minutes and about 1 % of a CPU. */
const slice = 500;
/** Rows with a finding are compared in every pass, up to this many. */
const maxRechecked = 200;

export function createRowComparison({ db, clock, environment }: SweepServices): (now: Date) => Promise<void> {
  const cursors: Record<ComparedTable, string> = { nodes: '', allocations: '' };
  return async (now) => {
    // Passes of several replicas within half an interval count as one.
    const passStart = secondsLater(now, -environment.drift.every_seconds / 2);
    const standing = await standingFindings(db, ['row_differs']);
    const isOfAllocation = ({ allocation_id }: { allocation_id: string | null }) => allocation_id !== null;
    for (const table of ['nodes', 'allocations'] as const) {
      const rechecked = standing
        .filter((finding) => isOfAllocation(finding) === (table === 'allocations'))
        .slice(0, maxRechecked);
      const { differing, without_evidence, cursor } = await compareSlice(db, table, {
        cursor: cursors[table],
        limit: slice,
        recheck: rechecked.map(({ subject }) => subject),
      });
      cursors[table] = cursor;
      const unresolved = new Set([...without_evidence, ...differing.map(({ subject }) => subject)]);
      const outdated = rechecked.filter(({ subject }) => !unresolved.has(subject));
      if (differing.length === 0 && outdated.length === 0) continue;
      const disagreements = differing.map((each) => ({ finding_id: newFindingId(clock), ...each }));
      await db.transaction(async (tx) => {
        await noteDisagreements(tx, disagreements, passStart, now, environment.decide.isConfirmed);
        await endFindings(tx, outdated, 'row and evidence agree again', now);
      });
    }
  };
}
