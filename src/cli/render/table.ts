/**
 * Aligned tables that fit the terminal. Text that may be cut is cut first, then whole columns go, least useful first; ids
 * are never cut, because an id that cannot be copied is of no use.
 */
import type { Paint, Tone } from './palette.ts';
import { displayWidth, pad, truncate } from './text.ts';

export interface Column<Row> {
  title: string;
  value(row: Row): string;
  tone?(row: Row): Tone | undefined;
  align?: 'right';
  /** May be cut down to this many columns. */
  shrinks_to?: number;
  /** May be left out where there is no room; the highest goes first. */
  drop?: number;
  /** Left out when no row has a value for it. */
  optional?: true;
}

export interface Fit {
  width: number;
  paint: Paint;
}

const gap = 2;

const total = (widths: number[]) =>
  widths.reduce((sum, width) => sum + width, 0) + gap * Math.max(0, widths.length - 1);

/** Takes what is missing from the widest column that can still give. */
function shrink<Row>(columns: Column<Row>[], natural: number[], width: number): number[] {
  const widths = [...natural];
  for (let excess = total(widths) - width; excess > 0; excess--) {
    let widest = -1;
    for (const [i, column] of columns.entries()) {
      const current = widths[i] ?? 0;
      if (column.shrinks_to !== undefined && current > column.shrinks_to && current > (widths[widest] ?? 0)) widest = i;
    }
    if (widest < 0) return widths;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

function leastUseful<Row>(columns: Column<Row>[]): Column<Row> | undefined {
  return columns
    .filter((column) => column.drop !== undefined)
    .sort((a, b) => (b.drop ?? 0) - (a.drop ?? 0))
    .at(0);
}

export function renderTable<Row>(all: Column<Row>[], rows: Row[], fit: Fit): string[] {
  let columns = all.filter((column) => !column.optional || rows.some((row) => column.value(row) !== ''));
  const measure = () =>
    columns.map((column) =>
      rows.reduce((width, row) => Math.max(width, displayWidth(column.value(row))), displayWidth(column.title)),
    );
  let widths = shrink(columns, measure(), fit.width);
  for (let out = leastUseful(columns); out && total(widths) > fit.width; out = leastUseful(columns)) {
    columns = columns.filter((column) => column !== out);
    widths = shrink(columns, measure(), fit.width);
  }

  const line = (cell: (column: Column<Row>) => { text: string; tone: Tone | undefined }) =>
    columns
      .map((column, i) => {
        const width = widths[i] ?? 0;
        const { text, tone } = cell(column);
        const cut = truncate(text, width);
        // Blanks are outside the colour, so that a cell's end can be trimmed and copied.
        const painted = fit.paint(tone, cut);
        const blanks = ' '.repeat(Math.max(0, width - displayWidth(cut)));
        return column.align === 'right' ? blanks + painted : painted + blanks;
      })
      .join(' '.repeat(gap))
      .trimEnd();

  return [
    line((column) => ({ text: column.title, tone: 'quiet' })),
    ...rows.map((row) => line((column) => ({ text: column.value(row), tone: column.tone?.(row) }))),
  ];
}

export type Fact = [label: string, value: string | null | undefined, tone?: Tone];

/** One thing in full: labels in one column, values in the other; what is not known is left out. */
export function renderFacts(facts: Fact[], fit: Fit): string[] {
  const known = facts.filter(([, value]) => value !== null && value !== undefined && value !== '');
  const width = Math.max(0, ...known.map(([label]) => displayWidth(label)));
  return known.map(
    ([label, value, tone]) => `  ${fit.paint('quiet', pad(label, width))}  ${fit.paint(tone, value ?? '')}`,
  );
}
