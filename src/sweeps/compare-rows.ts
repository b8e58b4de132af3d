/** Compares rows with what their evidence says, a slice in each pass; what differs is noted. Decides nothing. */
import { secondsLater } from '../base/clock.ts';
import { newFindingId } from '../base/ids.ts';
import { endFindings, noteDisagreements, standingFindings } from '../store/findings.ts';
import { type ComparedTable, compareSlice } from '../store/row-comparison.ts';
import type { SweepServices } from './services.ts';

/** All that is known of each of them is read, and an old machine has a long story. */
const slice = 50;

export function compareRows({ db, clock, environment }: SweepServices): (now: Date) => Promise<void> {
  const cursors: Record<ComparedTable, string> = { nodes: '', allocations: '' };
  return async (now) => {
    const passed = secondsLater(now, -environment.drift.every_seconds / 2);
    const standing = await standingFindings(db, ['row_differs']);
    const isOfAllocation = ({ allocation_id }: { allocation_id: string | null }) => allocation_id !== null;
    for (const table of ['nodes', 'allocations'] as const) {
      const doubted = standing.filter((finding) => isOfAllocation(finding) === (table === 'allocations'));
      const subjects = doubted.slice(0, slice).map(({ subject }) => subject);
      const { agreeing, differing, cursor } = await compareSlice(db, table, cursors[table], subjects, slice);
      cursors[table] = cursor;
      const settled = new Set(agreeing);
      const ended = doubted.filter(({ subject }) => settled.has(subject));
      if (differing.length === 0 && ended.length === 0) continue;
      const found = differing.map((each) => ({ finding_id: newFindingId(clock), ...each }));
      await db.transaction(async (tx) => {
        await noteDisagreements(tx, found, passed, now, environment.decide.isConfirmed);
        await endFindings(tx, ended, 'row and evidence agree again', now);
      });
    }
  };
}
