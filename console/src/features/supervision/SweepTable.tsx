/** Lists the sweeps with their last run, lateness and results. */
import type { ReplyOf } from '../../../../src/contract/route.ts';
import type { Routes } from '../../../../src/contract/routes.ts';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import { toneStyle } from '../../ui/theme.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { formatPrecise } from '../../ui/time/durations.ts';
import styles from './SweepTable.module.css';

type SweepRun = ReplyOf<Routes['sweep-list']>['items'][number];

const durationWords = (seconds: number) =>
  seconds < 1 ? `${Math.max(1, Math.round(seconds * 1000))} ms` : formatPrecise(seconds);
const durationCell = (value: number | null) =>
  value === null ? null : <span className="tabular">{durationWords(value)}</span>;
const countCell = (count: number) => count > 0 && <span className="tabular">{count}</span>;

const columnsWhile = (isObserving: boolean): Column<SweepRun>[] => [
  { key: 'sweep', heading: 'Sweep', sortValue: ({ name }) => name, cell: ({ name }) => <code>{name}</code> },
  {
    key: 'ran',
    heading: 'Last run',
    sortValue: ({ last_run_at }) => last_run_at ?? '',
    cell: ({ last_run_at }) => (last_run_at ? <Ago at={last_run_at} /> : 'not yet'),
  },
  {
    key: 'late',
    heading: 'Late by',
    sortValue: ({ lateness_seconds }) => lateness_seconds ?? -1,
    cell: ({ lateness_seconds }) => durationCell(lateness_seconds),
    end: true,
  },
  {
    key: 'decided',
    heading: 'Decided',
    sortValue: ({ decided }) => decided,
    cell: ({ decided }) => countCell(decided),
    end: true,
  },
  { key: 'held', heading: 'Held', sortValue: ({ held }) => held, cell: ({ held }) => countCell(held), end: true },
  {
    key: 'would',
    heading: 'Would have',
    sortValue: ({ would_have }) => would_have,
    cell: ({ would_have }) => countCell(would_have),
    end: true,
  },
  { key: 'took', heading: 'Took', cell: ({ last_seconds }) => durationCell(last_seconds), end: true, wideOnly: true },
  { key: 'trouble', heading: 'Problem', cell: (sweep) => <Problem sweep={sweep} isObserving={isObserving} /> },
];

const columns = columnsWhile(false);
const columnsAfterRestore = columnsWhile(true);

function Problem({ sweep, isObserving }: { sweep: SweepRun; isObserving: boolean }) {
  const { error, failed_at, waiting } = sweep;
  if (error)
    return (
      <span className={styles.error} style={toneStyle('bad')}>
        failed {failed_at && <Ago at={failed_at} />}: {error}
      </span>
    );
  return waiting && `waiting: ${isObserving ? 'the database was restored' : 'this replica may have missed heartbeats'}`;
}

interface Props {
  sweeps: SweepRun[];
  /** The database was restored, so most sweeps wait. */
  isObserving: boolean;
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
}

export const SweepTable = ({ sweeps, isObserving, sort, onSort }: Props) => (
  <DataTable
    label="Sweeps"
    columns={isObserving ? columnsAfterRestore : columns}
    rows={sweeps}
    rowKey={({ name }) => name}
    sort={sort}
    onSort={onSort}
  />
);
