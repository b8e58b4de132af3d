/**
 * Renders aligned tables that fit the terminal. In a narrow window, a table first drops columns
 * that can be spared, then cuts text, then drops more columns. It never cuts an id, so that you can
 * copy it.
 */
import type { Paint, Tone } from './palette.ts';
import { displayWidth, pad, printable, truncate, wrap } from './text.ts';

export interface Column<Row> {
  title: string;
  value(row: Row): string;
  tone?(row: Row): Tone | undefined;
  align?: 'right';
  /** The text may be cut to this many characters. */
  shrinks_to?: number;
  /**
   * A column with this field may be dropped; the highest value goes first. Values from
   * `dropBeforeCutting` on are dropped before any text is cut.
   */
  drop?: number;
  /** A dropped column is printed in full below its row. */
  below?: true;
  /** The column is left out if no row has a value for it. */
  optional?: true;
}

export interface Fit {
  width: number;
  paint: Paint;
}

const gap = 2;
export const dropBeforeCutting = 5;

const totalWidth = (widths: number[]) =>
  widths.reduce((sum, width) => sum + width, 0) + gap * Math.max(0, widths.length - 1);

/** Shrinks the widest column that can still shrink, one character at a time. */
function shrink<Row>(columns: Column<Row>[], natural: number[], width: number): number[] {
  const widths = [...natural];
  for (let excess = totalWidth(widths) - width; excess > 0; excess--) {
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

/** Returns the columns to show, their widths, and the columns to print below the rows. */
function fitColumns<Row>(all: Column<Row>[], rows: Row[], width: number) {
  const natural = new Map(
    all.map((column) => [
      column,
      rows.reduce((widest, row) => Math.max(widest, displayWidth(column.value(row))), displayWidth(column.title)),
    ]),
  );
  const measure = (columns: Column<Row>[]) => columns.map((column) => natural.get(column) ?? 0);
  let shown = all;
  const dropped: Column<Row>[] = [];
  for (let next = leastUseful(shown); next && totalWidth(measure(shown)) > width; next = leastUseful(shown)) {
    const fits = totalWidth(shrink(shown, measure(shown), width)) <= width;
    if (fits && (next.drop ?? 0) < dropBeforeCutting) break;
    dropped.push(next);
    shown = shown.filter((column) => column !== next);
  }
  const below = dropped.filter((column) => column.below);
  // A column moved below its row may leave room for columns dropped before it.
  for (const column of dropped.toReversed()) {
    const withColumn = all.filter((each) => each === column || shown.includes(each));
    if (!column.below && totalWidth(measure(withColumn)) <= width) shown = withColumn;
  }
  return { columns: shown, widths: shrink(shown, measure(shown), width), below };
}

/** Any cell may contain text from a machine, so control sequences are removed. */
const withSafeCells = <Row>(column: Column<Row>): Column<Row> => ({
  ...column,
  value: (row) => printable(column.value(row)),
});

export function renderTable<Row>(allColumns: Column<Row>[], rows: Row[], fit: Fit): string[] {
  const safeColumns = allColumns.map(withSafeCells);
  const filled = safeColumns.filter((column) => !column.optional || rows.some((row) => column.value(row) !== ''));
  const { columns, widths, below } = fitColumns(filled, rows, fit.width);

  const line = (cell: (column: Column<Row>) => { text: string; tone: Tone | undefined }) =>
    columns
      .map((column, i) => {
        const width = widths[i] ?? 0;
        const { text, tone } = cell(column);
        const cut = truncate(text, width);
        // Padding stays outside the colour, so that the end of a line can be trimmed.
        const painted = fit.paint(tone, cut);
        const blanks = ' '.repeat(Math.max(0, width - displayWidth(cut)));
        return column.align === 'right' ? blanks + painted : painted + blanks;
      })
      .join(' '.repeat(gap))
      .trimEnd();

  return [
    line((column) => ({ text: column.title, tone: 'quiet' })),
    ...rows.flatMap((row) => [
      line((column) => ({ text: column.value(row), tone: column.tone?.(row) })),
      ...below.flatMap((column) => noteLines(column.value(row), fit)),
    ]),
  ];
}

const noteMark = '  ↳ ';

const noteLines = (text: string, { width, paint }: Fit): string[] =>
  text === ''
    ? []
    : wrap(text, width - noteMark.length).map((line, i) => (i === 0 ? paint('quiet', noteMark) : '    ') + line);

export type Fact = [label: string, value: string | null | undefined, tone?: Tone];

/** Renders labels and values in two columns. Leaves out empty values. */
export function renderFacts(facts: Fact[], fit: Fit): string[] {
  const filledFacts = facts.filter(([, value]) => value !== null && value !== undefined && value !== '');
  const width = Math.max(0, ...filledFacts.map(([label]) => displayWidth(label)));
  const indentWidth = 2 + width + 2;
  return filledFacts.flatMap(([label, value, tone]) =>
    wrap(value ?? '', fit.width - indentWidth).map((line, i) =>
      i === 0
        ? `  ${fit.paint('quiet', pad(label, width))}  ${fit.paint(tone, line)}`
        : ' '.repeat(indentWidth) + fit.paint(tone, line),
    ),
  );
}
