/**
 * The sequences of a run in companies. Each has a world and a schedule of its own, so that one run tries more than one way in which
 * time passes, and two of them run side by side, because a store that answers one question after another leaves half a machine idle.
 */
import { type Report, together } from './report.ts';
import { runSequences } from './run.ts';
import { type Round, scheduleOf, sequenceOf } from './sequences.ts';
import { type Shrunk, shrink } from './shrink.ts';

const companySize = 5000;
const sideBySide = 2;

const companyOf = (index: number) => Math.floor(index / companySize);
const scheduleFor = (seed: number, index: number): Round[] => scheduleOf(seed, companyOf(index));

/** Stops before the next company where one broke something. */
export async function runCompanies(seed: number, indexes: readonly number[]): Promise<Report> {
  const waiting = [...Map.groupBy(indexes, companyOf).values()];
  const reports: Report[] = [];
  const lane = async () => {
    for (let company = waiting.shift(); company; company = waiting.shift()) {
      const schedule = scheduleFor(seed, company[0] ?? 0);
      const report = await runSequences(
        company.map((index) => sequenceOf(seed, index)),
        schedule,
      );
      reports.push(report);
      if (report.violations.length > 0) waiting.length = 0;
    }
  };
  await Promise.all(Array.from({ length: sideBySide }, lane));
  return together(reports);
}

/** What of a sequence is enough to break the same again, alone. */
export const shrinkOne = (seed: number, index: number, invariant: string): Promise<Shrunk | undefined> =>
  shrink(sequenceOf(seed, index), scheduleFor(seed, index), invariant);
