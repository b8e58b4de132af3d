/** The rules at work, one line each: when each ran last, how late it was, and what it did. */
import type { Static } from 'typebox';
import type { SweepRun as SweepRunSchema } from '../../../contract/supervision/supervision.ts';
import { relative, taken } from '../text/duration.ts';
import type { Column } from '../text/table.ts';
import { printable } from '../text/text.ts';

export type SweepRun = Static<typeof SweepRunSchema>;

const counted = (count: number) => (count === 0 ? '' : String(count));

const trouble = (sweep: SweepRun, nowMs: number): string => {
  if (sweep.error)
    return `failed ${sweep.failed_at ? relative(sweep.failed_at, nowMs) : ''}: ${printable(sweep.error)}`;
  return sweep.waiting ? 'waits: this replica is not sure of its own hearing' : '';
};

const took = (seconds: number) => (seconds < 1 ? `${Math.max(1, Math.round(seconds * 1000))} ms` : taken(seconds));

export const sweepColumns = (nowMs: number): Column<SweepRun>[] => [
  { title: 'RULE', value: (sweep) => sweep.name, tone: (sweep) => (sweep.error ? 'bad' : undefined) },
  { title: 'LAST RUN', value: ({ last_run_at }) => (last_run_at ? relative(last_run_at, nowMs) : 'not yet') },
  {
    title: 'TOOK',
    value: ({ last_seconds }) => (last_seconds === null ? '' : took(last_seconds)),
    align: 'right',
    drop: 7,
  },
  {
    title: 'LATE BY',
    value: ({ lateness_seconds }) => (lateness_seconds === null ? '' : taken(lateness_seconds)),
    align: 'right',
  },
  { title: 'DECIDED', value: ({ decided }) => counted(decided), align: 'right' },
  { title: 'HELD', value: ({ held }) => counted(held), align: 'right' },
  { title: 'WOULD HAVE', value: ({ would_have }) => counted(would_have), align: 'right', drop: 6 },
  { title: 'RUNS', value: ({ runs }) => String(runs), align: 'right', drop: 8 },
  {
    title: 'TROUBLE',
    value: (sweep) => trouble(sweep, nowMs),
    drop: 5,
    below: true,
    optional: true,
    tone: () => 'bad',
  },
];
