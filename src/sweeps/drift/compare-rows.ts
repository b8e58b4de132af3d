/** Compares rows with their evidence, a slice per pass, and notes differences. Decides nothing. */
import { secondsLater } from '../../base/clock.ts';
import { newFindingId } from '../../base/ids.ts';
import { type ComparedTable, compareSlice } from '../../store/history/row-comparison.ts';
import { endFindings, noteDisagreements, standingFindings } from '../../store/rows/findings.ts';
import type { SweepServices } from '../runner/services.ts';

/** Covers ten thousand nodes in three to four minutes, for about 1 % of a CPU. */
const slice = 500;
const maxDoubted = 200;

export function compareRows({ db, clock, environment }: SweepServices): (now: Date) => Promise<void> {
  const cursors: Record<ComparedTable, string> = { nodes: '', allocations: '' };
  return async (now) => {
    const passed = secondsLater(now, -environment.drift.every_seconds / 2);
    const standing = await standingFindings(db, ['row_differs']);
    const isOfAllocation = ({ allocation_id }: { allocation_id: string | null }) => allocation_id !== null;
    for (const table of ['nodes', 'allocations'] as const) {
      const doubted = standing.filter((finding) => isOfAllocation(finding) === (table === 'allocations'));
      const subjects = doubted.slice(0, maxDoubted).map(({ subject }) => subject);
      const { differing, without_evidence, cursor } = await compareSlice(db, table, {
        cursor: cursors[table],
        limit: slice,
        recheck: subjects,
      });
      cursors[table] = cursor;
      const open = new Set([...without_evidence, ...differing.map(({ subject }) => subject)]);
      const ended = doubted.slice(0, maxDoubted).filter(({ subject }) => !open.has(subject));
      if (differing.length === 0 && ended.length === 0) continue;
      const found = differing.map((each) => ({ finding_id: newFindingId(clock), ...each }));
      await db.transaction(async (tx) => {
        await noteDisagreements(tx, found, passed, now, environment.decide.isConfirmed);
        await endFindings(tx, ended, 'row and evidence agree again', now);
      });
    }
  };
}
