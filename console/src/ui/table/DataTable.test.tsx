/** Tests which rows the table shows, and in which order. */
import { MantineProvider } from '@mantine/core';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test } from 'vitest';
import { type Column, DataTable } from './DataTable.tsx';

const columns: Column<number>[] = [
  { key: 'value', heading: 'Value', sortValue: (value) => value, cell: (value) => <i>{value}</i> },
];

const shownValues = (sort: string | undefined, maxRows?: number) => {
  const html = renderToStaticMarkup(
    <MantineProvider>
      <DataTable
        label="Values"
        columns={columns}
        rows={[2, 1, 4, 3]}
        {...(maxRows !== undefined && { maxRows })}
        rowKey={String}
        sort={sort}
        onSort={() => {}}
      />
    </MantineProvider>,
  );
  return [...html.matchAll(/<i>(\d)<\/i>/g)].map(([, value]) => Number(value));
};

test('shows all rows, in the given order or sorted', () => {
  expect(shownValues(undefined)).toEqual([2, 1, 4, 3]);
  expect(shownValues('value')).toEqual([1, 2, 3, 4]);
  expect(shownValues('-value')).toEqual([4, 3, 2, 1]);
});

test('sorts all rows before it hides those beyond the limit', () => {
  expect(shownValues(undefined, 2)).toEqual([2, 1]);
  expect(shownValues('value', 2)).toEqual([1, 2]);
  expect(shownValues('-value', 2)).toEqual([4, 3]);
});
