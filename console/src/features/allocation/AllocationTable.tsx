/** The table of allocations with their actions. */
import { Button, Group } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useMemo } from 'react';
import type { Allocation } from '../../../../src/contract/allocation.ts';
import { allocationStatusNames } from '../../../../src/lifecycle/model/states.ts';
import { CopyId, shortId } from '../../ui/layout/CopyId.tsx';
import { type MachineTrouble, reasonOf, troubleOf } from '../../ui/status/machine-trouble.ts';
import { AllocationStatusBadge } from '../../ui/status/StatusBadges.tsx';
import styles from '../../ui/table/DataTable.module.css';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import type { Action } from '../actions/action.ts';
import { allocationActionLabel, isEnding } from '../actions/words.ts';
import { ProgressLine } from '../operations/ProgressLine.tsx';
import { hasEnded } from '../operations/progress.ts';
import { allocationAction, buttonsByStatus, nameOf } from './allocation-actions.ts';
import { useMachineTrouble } from './use-machine-trouble.ts';

/** `trouble` comes from the list of machines in trouble. */
type Row = Allocation & { trouble: MachineTrouble | null };

const sinceOf = ({ status_since, trouble }: Row): string => trouble?.since ?? status_since;

const columns: Column<Row>[] = [
  {
    key: 'name',
    heading: 'Name',
    sortValue: (allocation) => allocation.name ?? allocation.allocation_id,
    cell: (allocation) => (
      <Link to="/allocations/$id" params={{ id: allocation.allocation_id }} className="quiet-link">
        <b>{allocation.name ?? shortId(allocation.allocation_id)}</b>
      </Link>
    ),
  },
  {
    key: 'status',
    heading: 'Status',
    sortValue: (allocation) => allocationStatusNames.indexOf(allocation.status),
    cell: ({ status, trouble }) => <AllocationStatusBadge status={status} trouble={trouble} />,
  },
  {
    key: 'since',
    heading: 'For',
    sortValue: sinceOf,
    cell: (allocation) => <Ago at={sinceOf(allocation)} asAge />,
  },
  { key: 'progress', heading: 'Progress', cell: (allocation) => <ProgressOrReason allocation={allocation} /> },
  { key: 'pool', heading: 'Pool', sortValue: (allocation) => allocation.pool, cell: (allocation) => allocation.pool },
  {
    key: 'node',
    heading: 'Node',
    cell: ({ node_id }) =>
      node_id && (
        <Link to="/nodes/$id" params={{ id: node_id }} title={node_id}>
          <code>{shortId(node_id)}</code>
        </Link>
      ),
  },
  {
    key: 'age',
    heading: 'Age',
    sortValue: (allocation) => allocation.created_at,
    cell: (allocation) => <Ago at={allocation.created_at} asAge />,
  },
  {
    key: 'tenant',
    heading: 'Tenant',
    sortValue: ({ tenant }) => tenant,
    cell: ({ tenant }) => tenant,
    roomyOnly: true,
  },
  { key: 'id', heading: 'Id', cell: ({ allocation_id }) => <CopyId id={allocation_id} short />, roomyOnly: true },
];

/** Shows progress while an operation runs, otherwise the reason of the status. */
function ProgressOrReason({ allocation }: { allocation: Row }) {
  const { progress, verdict } = allocation;
  if (progress && !hasEnded(progress)) return <ProgressLine progress={progress} />;
  const words = reasonOf(allocation, allocation.trouble) ?? verdict?.reason;
  return words ? <span className={styles.wrapped}>{words}</span> : null;
}

interface Props {
  allocations: Allocation[];
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
  /** Undefined for viewers. */
  onAction: ((action: Action) => void) | undefined;
}

export function AllocationTable({ allocations, sort, onSort, onAction }: Props) {
  const withActions = useMemo(() => (onAction ? [...columns, actionsColumn(onAction)] : columns), [onAction]);
  const troubles = useMachineTrouble();
  const rows = useMemo(
    () => allocations.map((allocation) => ({ ...allocation, trouble: troubleOf(allocation, troubles) })),
    [allocations, troubles],
  );
  return (
    <DataTable
      label="Allocations"
      columns={withActions}
      rows={rows}
      rowKey={(allocation) => allocation.allocation_id}
      sort={sort}
      onSort={onSort}
    />
  );
}

const actionsColumn = (onAction: (action: Action) => void): Column<Row> => ({
  key: 'actions',
  heading: 'Actions',
  end: true,
  cell: (allocation) => {
    const offers = buttonsByStatus(allocation.status);
    if (offers.length === 0) return null;
    return (
      <Group gap={6} justify="flex-end" wrap="nowrap">
        {offers.map((offer) => {
          const label = allocationActionLabel(offer.action, allocation.status);
          return (
            <Button
              key={offer.action}
              size="compact-xs"
              variant={isEnding(offer.action) ? 'default' : 'filled'}
              aria-label={`${label} ${nameOf(allocation)}`}
              onClick={() => onAction(allocationAction(allocation, offer))}
            >
              {label}
            </Button>
          );
        })}
      </Group>
    );
  },
});
