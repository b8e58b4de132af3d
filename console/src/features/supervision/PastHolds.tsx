/** Tables of past holds, and of gaps in which the control plane stored no heartbeats. */
import type { Brake } from '../../../../src/contract/supervision/supervision.ts';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import { formatPrecise } from '../../ui/time/durations.ts';
import type { Hold } from './words.ts';

type Gap = Brake['gaps'][number];

const unsorted = { sort: undefined, onSort: () => {} };

const holdColumns: Column<Hold>[] = [
  { key: 'rule', heading: 'Rule', cell: ({ rule }) => <code>{rule}</code> },
  { key: 'where', heading: 'Where', cell: ({ scope, name }) => `${scope} ${name}` },
  { key: 'why', heading: 'Why', cell: ({ reason }) => reason },
  { key: 'began', heading: 'Began', cell: ({ since }) => <Ago at={since} /> },
  { key: 'end', heading: 'End', cell: (hold) => <End hold={hold} /> },
];

function End({ hold: { resumed_at, resumed_by, ended_at } }: { hold: Hold }) {
  if (resumed_at)
    return (
      <span>
        resumed <Ago at={resumed_at} /> by {resumed_by?.name ?? 'unknown'}
      </span>
    );
  return (
    ended_at && (
      <span>
        ended <Ago at={ended_at} />
      </span>
    )
  );
}

export const PastHolds = ({ holds }: { holds: Hold[] }) => (
  <DataTable label="Earlier holds" columns={holdColumns} rows={holds} rowKey={({ hold_id }) => hold_id} {...unsorted} />
);

const gapColumns: Column<Gap>[] = [
  { key: 'ended', heading: 'Ended', cell: ({ ended_at }) => <Ago at={ended_at} /> },
  { key: 'lasted', heading: 'Lasted', cell: ({ seconds }) => formatPrecise(seconds), end: true },
  { key: 'moved', heading: 'Deadlines moved', cell: ({ deadlines_moved }) => deadlines_moved, end: true },
  { key: 'why', heading: 'Why', cell: ({ cause }) => cause },
];

export const GapTable = ({ gaps }: { gaps: Gap[] }) => (
  <DataTable label="Gaps" columns={gapColumns} rows={gaps} rowKey={({ started_at }) => started_at} {...unsorted} />
);
