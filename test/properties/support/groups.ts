/**
 * Runs sequences in groups. Each group has its own fixture and schedule, so that a run tries
 * several schedules. Two groups run in parallel, because one alone leaves half of the machine idle.
 */
import { mergeReports, type Report } from './report.ts';
import { runSequences } from './run.ts';
import { type Round, scheduleOf, sequenceOf } from './sequences.ts';
import { type Shrunk, shrink } from './shrink.ts';

const groupSize = 5000;
const parallelGroups = 2;

const groupOf = (index: number) => Math.floor(index / groupSize);
const scheduleFor = (seed: number, index: number): Round[] => scheduleOf(seed, groupOf(index));

/** Stops after the first group with a violation. */
export async function runGroups(seed: number, indexes: readonly number[]): Promise<Report> {
  const waiting = [...Map.groupBy(indexes, groupOf).values()];
  const reports: Report[] = [];
  const lane = async () => {
    for (let group = waiting.shift(); group; group = waiting.shift()) {
      const schedule = scheduleFor(seed, group[0] ?? 0);
      const report = await runSequences(
        group.map((index) => sequenceOf(seed, index)),
        schedule,
      );
      reports.push(report);
      if (report.violations.length > 0) waiting.length = 0;
    }
  };
  await Promise.all(Array.from({ length: parallelGroups }, lane));
  return mergeReports(reports);
}

/** Shrinks one sequence, alone, while it breaks the same invariant. */
export const shrinkOne = (seed: number, index: number, invariant: string): Promise<Shrunk | undefined> =>
  shrink(sequenceOf(seed, index), scheduleFor(seed, index), invariant);
