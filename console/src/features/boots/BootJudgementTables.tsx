/**
 * Lists the boots that a budget would have given up although they arrived, and the boots that were
 * stuck.
 */

import { useState } from 'react';
import type { WhatIf } from '../../../../src/contract/supervision/boots.ts';
import { formatSeconds } from '../../../../src/lifecycle/boots/what-if-words.ts';
import { IconLifebuoy, IconX } from '../../ui/icons.generated.ts';
import { StatusBadge } from '../../ui/status/StatusBadge.tsx';
import type { Look } from '../../ui/status/status-looks.ts';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import { BootMachine } from './BootMachine.tsx';
import styles from './BudgetQuestion.module.css';
import type { Judgement } from './what-if.ts';

type FalseKill = WhatIf['false_kills'][number];
type Stuck = WhatIf['stuck'][number];

const tabularText = (words: string) => <span className="tabular">{words}</span>;

const looks: Record<'rescued' | 'lost', Look> = {
  rescued: { tone: 'warn', icon: IconLifebuoy },
  lost: { tone: 'bad', icon: IconX },
};

const machine = { key: 'node', heading: 'Machine', cell: BootMachine };
const when = {
  key: 'at',
  heading: 'When',
  sortValue: ({ at }: { at: string }) => at,
  cell: ({ at }: { at: string }) => <Ago at={at} />,
};

const falseKillColumns: Column<FalseKill>[] = [
  machine,
  {
    key: 'seconds',
    heading: 'Took',
    sortValue: ({ seconds }) => seconds,
    cell: ({ seconds }) => tabularText(formatSeconds(seconds)),
  },
  {
    key: 'over',
    heading: 'Over by',
    sortValue: ({ over_seconds }) => over_seconds,
    cell: ({ over_seconds }) => tabularText(formatSeconds(over_seconds)),
  },
  {
    key: 'result',
    heading: 'Result',
    sortValue: ({ rescued }) => Number(rescued),
    cell: ({ rescued }) => {
      const result = rescued ? 'rescued' : 'lost';
      return <StatusBadge look={looks[result]} status={result} />;
    },
  },
  when,
];

const soonerWords = (seconds: number) =>
  Math.abs(seconds) < 0.05
    ? 'at the same time'
    : `${formatSeconds(Math.abs(seconds))} ${seconds > 0 ? 'sooner' : 'later'}`;

const stuckColumns: Column<Stuck>[] = [
  machine,
  {
    key: 'seconds',
    heading: 'Waited for',
    sortValue: ({ seconds }) => seconds,
    cell: ({ seconds }) => tabularText(formatSeconds(seconds)),
  },
  {
    key: 'sooner',
    heading: 'Detected',
    sortValue: ({ sooner_seconds }) => sooner_seconds,
    cell: ({ sooner_seconds }) => tabularText(soonerWords(sooner_seconds)),
  },
  when,
];

/** The page shows at most this many rows; the count above each table includes all boots. */
const maxRows = 100;

interface ListProps<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  emptyText: string;
}

function List<Row extends { node_instance_id: string }>({ label, columns, rows, emptyText }: ListProps<Row>) {
  const [sort, setSort] = useState<string | undefined>();
  return (
    <div className={styles.list}>
      {rows.length === 0 ? (
        <p className={styles.none}>{emptyText}</p>
      ) : (
        <DataTable
          label={label}
          columns={columns}
          rows={rows.slice(0, maxRows)}
          rowKey={({ node_instance_id }) => node_instance_id}
          sort={sort}
          onSort={setSort}
        />
      )}
    </div>
  );
}

export const FalseKillTable = ({ judged: { false_kills, budget_seconds } }: { judged: Judgement }) => (
  <List
    label="Boots given up although they arrived"
    columns={falseKillColumns}
    rows={false_kills}
    emptyText={`None: every boot that arrived took at most ${formatSeconds(budget_seconds)}.`}
  />
);

export const StuckTable = ({ judged: { stuck } }: { judged: Judgement }) => (
  <List
    label="Boots that were stuck"
    columns={stuckColumns}
    rows={stuck}
    emptyText="None: every boot on record arrived in the end."
  />
);
