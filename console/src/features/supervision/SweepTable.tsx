/** Lists the rules with their last run, lateness and results. */
import type { ReplyOf } from '../../../../src/contract/route.ts';
import type { Routes } from '../../../../src/contract/routes.ts';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import { toneStyle } from '../../ui/theme.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { precise } from '../../ui/time/durations.ts';
import styles from './SweepTable.module.css';

type SweepRun = ReplyOf<Routes['sweep-list']>['items'][number];

const durationWords = (value: number) => (value < 1 ? `${Math.max(1, Math.round(value * 1000))} ms` : precise(value));
const seconds = (value: number | null) =>
  value === null ? null : <span className="tabular">{durationWords(value)}</span>;
const countCell = (count: number) => count > 0 && <span className="tabular">{count}</span>;

const columns: Column<SweepRun>[] = [
  { key: 'rule', heading: 'Rule', sortValue: ({ name }) => name, cell: ({ name }) => <code>{name}</code> },
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
    cell: ({ lateness_seconds }) => seconds(lateness_seconds),
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
  { key: 'took', heading: 'Took', cell: ({ last_seconds }) => seconds(last_seconds), end: true, wideOnly: true },
  { key: 'trouble', heading: 'Problem', cell: (sweep) => <Problem sweep={sweep} /> },
];

function Problem({ sweep: { error, failed_at, waiting } }: { sweep: SweepRun }) {
  if (error)
    return (
      <span className={styles.error} style={toneStyle('bad')}>
        failed {failed_at && <Ago at={failed_at} />}: {error}
      </span>
    );
  return waiting && 'waiting: this replica may have missed heartbeats';
}

interface Props {
  sweeps: SweepRun[];
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
}

export const SweepTable = ({ sweeps, sort, onSort }: Props) => (
  <DataTable label="Rules" columns={columns} rows={sweeps} rowKey={({ name }) => name} sort={sort} onSort={onSort} />
);
