/** `slipway sweeps`: lists the sweeps of a replica with their last runs. */
import type { Static } from 'typebox';
import type { SweepRun as SweepRunSchema } from '../../../contract/supervision/supervision.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { formatDuration, formatRelative } from '../../render/text/duration.ts';
import { type Column, renderTable } from '../../render/text/table.ts';
import { printable } from '../../render/text/text.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';

export type SweepRun = Static<typeof SweepRunSchema>;

const nonZero = (count: number) => (count === 0 ? '' : String(count));

const troubleOf = (sweep: SweepRun, nowMs: number): string => {
  if (sweep.error)
    return `failed ${sweep.failed_at ? formatRelative(sweep.failed_at, nowMs) : ''}: ${printable(sweep.error)}`;
  return sweep.waiting ? 'waits: this replica may have missed heartbeats' : '';
};

const formatRunTime = (seconds: number) =>
  seconds < 1 ? `${Math.max(1, Math.round(seconds * 1000))} ms` : formatDuration(seconds);

const sweepColumns = (nowMs: number): Column<SweepRun>[] => [
  { title: 'RULE', value: (sweep) => sweep.name, tone: (sweep) => (sweep.error ? 'bad' : undefined) },
  { title: 'LAST RUN', value: ({ last_run_at }) => (last_run_at ? formatRelative(last_run_at, nowMs) : 'not yet') },
  {
    title: 'TOOK',
    value: ({ last_seconds }) => (last_seconds === null ? '' : formatRunTime(last_seconds)),
    align: 'right',
    drop: 7,
  },
  {
    title: 'LATE BY',
    value: ({ lateness_seconds }) => (lateness_seconds === null ? '' : formatDuration(lateness_seconds)),
    align: 'right',
  },
  { title: 'DECIDED', value: ({ decided }) => nonZero(decided), align: 'right' },
  { title: 'HELD', value: ({ held }) => nonZero(held), align: 'right' },
  { title: 'WOULD HAVE', value: ({ would_have }) => nonZero(would_have), align: 'right', drop: 6 },
  { title: 'RUNS', value: ({ runs }) => String(runs), align: 'right', drop: 8 },
  {
    title: 'TROUBLE',
    value: (sweep) => troubleOf(sweep, nowMs),
    drop: 5,
    below: true,
    optional: true,
    tone: () => 'bad',
  },
];

export const makeSweeps: MakeCommand = (cli) =>
  new SlipwayCommand('sweeps')
    .description('List the sweeps of the replica that answers: last run, lateness, verdicts made and verdicts held.')
    .action(
      cli.run(async (session) => {
        const runs = await session.call('sweep-list', {});
        const { out } = session.terminal;
        if (session.json) printJson(out, runs);
        else printLines(out, renderTable(sweepColumns(session.clock.nowMs()), runs.items, fitOf(out)));
        if (out.interactive && !session.json) printLines(out, ['', out.paint('quiet', `replica ${runs.replica_id}`)]);
        return undefined;
      }),
    );
