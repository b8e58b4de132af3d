/** The rows of the residue ledger, with the last check and the actions. */

import { Button, Group } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useMemo } from 'react';
import type { Residue } from '../../../../src/contract/supervision/residue.ts';
import { CopyId, shortId } from '../../ui/layout/CopyId.tsx';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import { toSentence } from '../../ui/text.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { withLocalTimes } from '../../ui/time/times.ts';
import type { Action } from '../actions/action.ts';
import styles from './ResidueTable.module.css';
import { residueAction, residueActionNames, residueActions } from './residue-actions.ts';
import { causeWords, costWords, residueName, whereWords } from './words.ts';

const columns: Column<Residue>[] = [
  {
    key: 'what',
    heading: 'What',
    sortValue: residueName,
    cell: ({ kind, resource, residue_id }) => (
      <div className={styles.lines}>
        <b>{kind}</b>
        <code className={styles.resource} title={resource}>
          {resource}
        </code>
        <CopyId id={residue_id} short />
      </div>
    ),
  },
  { key: 'where', heading: 'Where', sortValue: whereWords, cell: whereWords },
  { key: 'since', heading: 'Since', sortValue: ({ since }) => since, cell: ({ since }) => <Ago at={since} /> },
  {
    key: 'why',
    heading: 'Why',
    cell: (row) => (
      <div className={styles.lines}>
        <span>{toSentence(causeWords(row))}</span>
        <span className={styles.dim}>{row.reason}</span>
      </div>
    ),
  },
  { key: 'of', heading: 'Belonged to', cell: (row) => <FormerOwner residue={row} /> },
  {
    key: 'cost',
    heading: 'Cost',
    sortValue: ({ cost_per_hour }) => cost_per_hour ?? -1,
    cell: ({ cost_per_hour }) => cost_per_hour !== null && <span className="tabular">{costWords(cost_per_hour)}</span>,
    end: true,
  },
  {
    key: 'seen',
    heading: 'Last check',
    sortValue: ({ verified_at }) => verified_at ?? '',
    cell: (row) => <LastCheck residue={row} />,
  },
];

const FormerOwner = ({ residue: { node_id, allocation_id } }: { residue: Residue }) => (
  <div className={styles.lines}>
    {node_id && (
      <Link to="/nodes/$id" params={{ id: node_id }} title={node_id}>
        <code>{shortId(node_id)}</code>
      </Link>
    )}
    {allocation_id && (
      <Link to="/allocations/$id" params={{ id: allocation_id }} title={allocation_id}>
        <code>{shortId(allocation_id)}</code>
      </Link>
    )}
  </div>
);

function LastCheck({ residue }: { residue: Residue }) {
  const { verified_at, seen, settled_at, settled_by, settled_reason, status, workflow_id } = residue;
  return (
    <div className={styles.lines}>
      {settled_at ? (
        <span>
          {status} <Ago at={settled_at} />
          {settled_by && ` by ${settled_by.name}`}
        </span>
      ) : (
        <span>{verified_at ? <Ago at={verified_at} /> : 'not yet'}</span>
      )}
      {(settled_reason ?? seen) && <span className={styles.dim}>{withLocalTimes(settled_reason ?? seen ?? '')}</span>}
      {workflow_id && (
        <Link to="/operations/$id" params={{ id: workflow_id }} className={styles.dim}>
          see the operation
        </Link>
      )}
    </div>
  );
}

interface Props {
  rows: Residue[];
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
  /** Undefined for viewers. */
  onAction: ((action: Action) => void) | undefined;
}

export function ResidueTable({ rows, sort, onSort, onAction }: Props) {
  const withActions = useMemo(() => (onAction ? [...columns, actionsColumn(onAction)] : columns), [onAction]);
  return (
    <DataTable
      label="Residue"
      columns={withActions}
      rows={rows}
      rowKey={({ residue_id }) => residue_id}
      sort={sort}
      onSort={onSort}
    />
  );
}

const actionsColumn = (onAction: (action: Action) => void): Column<Residue> => ({
  key: 'actions',
  heading: 'Actions',
  end: true,
  cell: (row) =>
    row.status === 'open' && (
      <Group gap={6} justify="flex-end" wrap="nowrap">
        {residueActionNames.map((action) => (
          <Button
            key={action}
            size="compact-xs"
            variant={action === 'delete' ? 'light' : 'default'}
            color={action === 'delete' ? 'red' : undefined}
            aria-label={`${residueActions[action].label} ${residueName(row)}`}
            onClick={() => onAction(residueAction(row, action))}
          >
            {residueActions[action].label}
          </Button>
        ))}
      </Group>
    ),
});
