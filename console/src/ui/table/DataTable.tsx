/**
 * A table that sorts by its headings; on a phone, rows become cards. The caller keeps the sort
 * order, usually in the URL.
 */
import { UnstyledButton } from '@mantine/core';
import { type ReactNode, useMemo } from 'react';
import { IconArrowDown, IconArrowUp } from '../icons.generated.ts';
import styles from './DataTable.module.css';

export interface Column<Row> {
  key: string;
  heading: string;
  cell: (row: Row) => ReactNode;
  /** The value to sort by. Without this function, the column cannot be sorted. */
  sortValue?: (row: Row) => string | number;
  /** Align right, for numbers. */
  end?: boolean;
  /** Hide on phones. */
  wideOnly?: boolean;
  /** Hide first when space is short. */
  roomyOnly?: boolean;
}

interface Props<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  /** Rows beyond this number in the sort order are hidden. */
  maxRows?: number;
  rowKey: (row: Row) => string;
  /** The key of a column, with a leading `-` for descending. */
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
}

function sortRows<Row>(rows: Row[], columns: Column<Row>[], sort: string | undefined): Row[] {
  const descending = sort?.startsWith('-') ?? false;
  const sortValue = columns.find(({ key }) => key === sort?.replace(/^-/, ''))?.sortValue;
  if (!sortValue) return rows;
  const sign = descending ? -1 : 1;
  return rows.toSorted((a, b) => {
    const [left, right] = [sortValue(a), sortValue(b)];
    return sign * (left < right ? -1 : left > right ? 1 : 0);
  });
}

export function DataTable<Row>({ label, columns, rows, maxRows, rowKey, sort, onSort }: Props<Row>) {
  const sortedRows = useMemo(() => sortRows(rows, columns, sort), [rows, columns, sort]);
  return (
    <div className={styles.scroll}>
      <table className={styles.table} aria-label={label}>
        <thead>
          <tr>
            {columns.map((column) => (
              <Heading key={column.key} column={column} sort={sort} onSort={onSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          {sortedRows.slice(0, maxRows).map((row) => (
            <tr key={rowKey(row)}>
              {columns.map(({ key, heading, cell, end, wideOnly, roomyOnly }) => (
                <td
                  key={key}
                  data-heading={heading}
                  data-end={end || undefined}
                  data-wide-only={wideOnly || undefined}
                  data-roomy-only={roomyOnly || undefined}
                >
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface HeadingProps<Row> {
  column: Column<Row>;
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
}

function Heading<Row>({
  column: { key, heading, sortValue, end, wideOnly, roomyOnly },
  sort,
  onSort,
}: HeadingProps<Row>) {
  const direction = sort === key ? 'ascending' : sort === `-${key}` ? 'descending' : undefined;
  const next = direction === undefined ? key : direction === 'ascending' ? `-${key}` : undefined;
  return (
    <th
      scope="col"
      aria-sort={direction}
      data-end={end || undefined}
      data-wide-only={wideOnly || undefined}
      data-roomy-only={roomyOnly || undefined}
    >
      {sortValue ? (
        <UnstyledButton className={styles.sort} onClick={() => onSort(next)}>
          {heading}
          {direction === 'ascending' && <IconArrowUp size={13} aria-hidden />}
          {direction === 'descending' && <IconArrowDown size={13} aria-hidden />}
        </UnstyledButton>
      ) : (
        heading
      )}
    </th>
  );
}
