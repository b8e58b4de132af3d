/**
 * Aligned tables that fit the terminal. What can be spared goes first, then text is cut, then the rest goes; ids are never
 * cut, because an id that cannot be copied is of no use.
 */
import type { Paint, Tone } from './palette.ts';
import { displayWidth, pad, printable, truncate, wrap } from './text.ts';

export interface Column<Row> {
  title: string;
  value(row: Row): string;
  tone?(row: Row): Tone | undefined;
  align?: 'right';
  /** May be cut down to this many columns. */
  shrinks_to?: number;
  /** May be left out where there is no room; the highest goes first, and from `sparedFrom` on before any text is cut. */
  drop?: number;
  /** Instead of being left out it is written whole, under its row. */
  below?: true;
  /** Left out when no row has a value for it. */
  optional?: true;
}

export interface Fit {
  width: number;
  paint: Paint;
}

const gap = 2;
export const sparedFrom = 5;

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

/** Which columns are shown, how wide, and which stand under their rows instead. */
function fitColumns<Row>(all: Column<Row>[], rows: Row[], width: number) {
  const natural = new Map(
    all.map((column) => [
      column,
      rows.reduce((widest, row) => Math.max(widest, displayWidth(column.value(row))), displayWidth(column.title)),
    ]),
  );
  const measure = (columns: Column<Row>[]) => columns.map((column) => natural.get(column) ?? 0);
  let shown = all;
  const out: Column<Row>[] = [];
  for (let next = leastUseful(shown); next && total(measure(shown)) > width; next = leastUseful(shown)) {
    const fits = total(shrink(shown, measure(shown), width)) <= width;
    if (fits && (next.drop ?? 0) < sparedFrom) break;
    out.push(next);
    shown = shown.filter((column) => column !== next);
  }
  const below = out.filter((column) => column.below);
  // A reason that went below its row leaves room for some that went before it.
  for (const column of out.toReversed()) {
    const wider = all.filter((each) => each === column || shown.includes(each));
    if (!column.below && total(measure(wider)) <= width) shown = wider;
  }
  return { columns: shown, widths: shrink(shown, measure(shown), width), below };
}

/** What is in a cell may come from a machine, whatever the column is for. */
const withSafeCells = <Row>(column: Column<Row>): Column<Row> => ({
  ...column,
  value: (row) => printable(column.value(row)),
});

export function renderTable<Row>(given: Column<Row>[], rows: Row[], fit: Fit): string[] {
  const all = given.map(withSafeCells);
  const filled = all.filter((column) => !column.optional || rows.some((row) => column.value(row) !== ''));
  const { columns, widths, below } = fitColumns(filled, rows, fit.width);

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

/** One thing in full: labels in one column, values in the other; what is not known is left out. */
export function renderFacts(facts: Fact[], fit: Fit): string[] {
  const known = facts.filter(([, value]) => value !== null && value !== undefined && value !== '');
  const width = Math.max(0, ...known.map(([label]) => displayWidth(label)));
  const left = 2 + width + 2;
  return known.flatMap(([label, value, tone]) =>
    wrap(value ?? '', fit.width - left).map((line, i) =>
      i === 0
        ? `  ${fit.paint('quiet', pad(label, width))}  ${fit.paint(tone, line)}`
        : ' '.repeat(left) + fit.paint(tone, line),
    ),
  );
}
