/** The recorded boots of a phase: machine, duration, outcome and budget. */

import { useState } from 'react';
import type { BootSample } from '../../../../src/contract/supervision/boots.ts';
import { formatSeconds } from '../../../../src/lifecycle/boots/what-if-words.ts';
import { IconCheck, IconClock, IconMinus, IconX } from '../../ui/icons.generated.ts';
import { StatusBadge } from '../../ui/status/StatusBadge.tsx';
import type { Look } from '../../ui/status/status-looks.ts';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import { LoadMore } from '../../ui/table/LoadMore.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import { BootMachine } from './BootMachine.tsx';
import type { Outcome } from './chart-geometry.ts';

const looks: Record<Outcome, Look> = {
  completed: { tone: 'ok', icon: IconCheck },
  late: { tone: 'warn', icon: IconClock },
  timed_out: { tone: 'bad', icon: IconX },
  cancelled: { tone: 'idle', icon: IconMinus },
};

const tabularText = (words: string) => <span className="tabular">{words}</span>;

const columns: Column<BootSample>[] = [
  {
    key: 'node',
    heading: 'Machine',
    cell: BootMachine,
  },
  {
    key: 'seconds',
    heading: 'Took',
    sortValue: ({ seconds }) => seconds,
    cell: ({ seconds }) => tabularText(formatSeconds(seconds)),
  },
  {
    key: 'outcome',
    heading: 'Ended',
    sortValue: ({ outcome }) => outcome,
    cell: ({ outcome }) => <StatusBadge look={looks[outcome]} status={outcome} />,
  },
  {
    key: 'late',
    heading: 'Too late by',
    sortValue: ({ lateness_seconds }) => lateness_seconds ?? -1,
    cell: ({ lateness_seconds }) => lateness_seconds !== null && tabularText(formatSeconds(lateness_seconds)),
  },
  {
    key: 'budget',
    heading: 'Budget then',
    sortValue: ({ budget_seconds }) => budget_seconds ?? -1,
    cell: ({ budget_seconds }) => budget_seconds !== null && tabularText(formatSeconds(budget_seconds)),
  },
  { key: 'at', heading: 'When', sortValue: ({ at }) => at, cell: ({ at }) => <Ago at={at} /> },
];

interface Props {
  samples: BootSample[];
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
}

const initialRows = 25;

export function BootSampleTable({ samples, sort, onSort }: Props) {
  const [showsAll, setShowsAll] = useState(false);
  return (
    <>
      <DataTable
        label="Recorded boots"
        columns={columns}
        rows={samples}
        maxRows={showsAll ? samples.length : initialRows}
        rowKey={({ node_instance_id }) => node_instance_id}
        sort={sort}
        onSort={onSort}
      />
      <LoadMore
        list={{
          hasNextPage: !showsAll && samples.length > initialRows,
          isFetchingNextPage: false,
          fetchNextPage: async () => setShowsAll(true),
        }}
      />
    </>
  );
}
