/**
 * Runs sequences in groups. Each group has its own fixture and schedule, so that a run tries
 * several schedules. Two groups run in parallel, because one alone leaves half of the CPU idle.
 */
import { mergeReports, type Report } from './report.ts';
import { runSequences } from './run.ts';
import { generateSchedule, generateSequence, type Round } from './sequences.ts';
import { type Shrunk, shrink } from './shrink.ts';

const groupSize = 5000;
const parallelGroups = 2;

const groupOf = (index: number) => Math.floor(index / groupSize);
const scheduleOfIndex = (seed: number, index: number): Round[] => generateSchedule(seed, groupOf(index));

/** Starts no further group after a violation. */
export async function runGroups(seed: number, indexes: readonly number[]): Promise<Report> {
  const pendingGroups = [...Map.groupBy(indexes, groupOf).values()];
  const reports: Report[] = [];
  const worker = async () => {
    for (let group = pendingGroups.shift(); group; group = pendingGroups.shift()) {
      const schedule = scheduleOfIndex(seed, group[0] ?? 0);
      const report = await runSequences(
        group.map((index) => generateSequence(seed, index)),
        schedule,
      );
      reports.push(report);
      if (report.violations.length > 0) pendingGroups.length = 0;
    }
  };
  await Promise.all(Array.from({ length: parallelGroups }, worker));
  return mergeReports(reports);
}

/** Shrinks one sequence to the fewest turns that still break the invariant. */
export const shrinkOne = (seed: number, index: number, invariant: string): Promise<Shrunk | undefined> =>
  shrink(generateSequence(seed, index), scheduleOfIndex(seed, index), invariant);
