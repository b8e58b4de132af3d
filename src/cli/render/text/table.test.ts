/** Checks how tables fit the width of the terminal. */
import { expect, test } from 'vitest';
import { coloured, plain } from './palette.ts';
import { type Column, dropBeforeCutting, renderFacts, renderTable } from './table.ts';
import { displayWidth } from './text.ts';

interface Row {
  id: string;
  status: string;
  reason: string;
  zone: string;
}
const columns: Column<Row>[] = [
  { title: 'ID', value: (row) => row.id },
  { title: 'STATUS', value: (row) => row.status, tone: () => 'good' },
  { title: 'REASON', value: (row) => row.reason, shrinks_to: 8, drop: 2 },
  { title: 'ZONE', value: (row) => row.zone, drop: 1, optional: true },
];
const rows: Row[] = [
  { id: 'node_01234567890123456789', status: 'ready', reason: 'all is very well with this one', zone: 'eu-1' },
  { id: 'node_1', status: 'provisioning', reason: '', zone: '' },
];

test('aligns columns', () => {
  expect(renderTable(columns, rows, { width: 120, paint: plain })).toEqual([
    'ID                         STATUS        REASON                          ZONE',
    'node_01234567890123456789  ready         all is very well with this one  eu-1',
    'node_1                     provisioning',
  ]);
});

test('cuts text, then drops columns, but never cuts an id', () => {
  expect(renderTable(columns, rows, { width: 60, paint: plain })).toEqual([
    'ID                         STATUS        REASON         ZONE',
    'node_01234567890123456789  ready         all is very…   eu-1',
    'node_1                     provisioning',
  ]);
  expect(renderTable(columns, rows, { width: 47, paint: plain })[1]).toBe(
    'node_01234567890123456789  ready         eu-1',
  );
  expect(renderTable(columns, rows, { width: 10, paint: plain })[1]).toBe('node_01234567890123456789  ready');
});

test('drops columns that can be spared before cutting text', () => {
  const spare = columns.map((column) => (column.title === 'ZONE' ? { ...column, drop: dropBeforeCutting } : column));
  expect(renderTable(spare, rows, { width: 73, paint: plain }).slice(0, 2)).toEqual([
    'ID                         STATUS        REASON',
    'node_01234567890123456789  ready         all is very well with this one',
  ]);
});

test('prints a reason that does not fit below its row', () => {
  const below = columns.map((column) =>
    column.title === 'REASON'
      ? { ...column, shrinks_to: undefined, drop: dropBeforeCutting, below: true as const }
      : column,
  );
  expect(renderTable(below, rows, { width: 47, paint: plain })).toEqual([
    'ID                         STATUS        ZONE',
    'node_01234567890123456789  ready         eu-1',
    '  ↳ all is very well with this one',
    'node_1                     provisioning',
  ]);
});

test('leaves out an empty optional column', () => {
  const without = rows.map((row) => ({ ...row, zone: '' }));
  expect(renderTable(columns, without, { width: 120, paint: plain })[0]).not.toContain('ZONE');
});

test('computes the same widths with and without colours', () => {
  const painted = renderTable(columns, rows, { width: 60, paint: coloured });
  const bare = renderTable(columns, rows, { width: 60, paint: plain });
  expect(painted.map(displayWidth)).toEqual(bare.map(displayWidth));
  expect(painted[1]).toContain('\x1b[32mready\x1b[0m');
});

test('leaves out empty facts', () => {
  expect(
    renderFacts(
      [
        ['pool', 'gpu'],
        ['endpoint', null],
        ['zone', ''],
      ],
      { width: 80, paint: plain },
    ),
  ).toEqual(['  pool  gpu']);
});
