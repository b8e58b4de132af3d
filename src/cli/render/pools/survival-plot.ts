/**
 * Plots the share of boots in progress over time with characters: the curve in braille dots, its
 * confidence band in grey, the budget as a vertical line, and a histogram below the axis. Pure.
 */
import { type DurationScale, marksOn, placeOf, scaleOver, secondsAt } from '../../../base/duration-scale.ts';
import type { BootPhase } from '../../../contract/supervision/boots.ts';
import { formatSeconds } from '../../../lifecycle/boots/what-if-words.ts';
import type { Tone } from '../text/palette.ts';
import type { Fit } from '../text/table.ts';
import { padStart } from '../text/text.ts';

export interface Plot {
  survival: BootPhase['survival'];
  /** The duration of each recorded boot. */
  seconds: readonly number[];
  budget_seconds: number;
}

/** A braille cell has two columns of four dots; Unicode assigns the bits. */
const dotBits = [
  [0x01, 0x02, 0x04, 0x40],
  [0x08, 0x10, 0x20, 0x80],
] as const;
const brailleBase = 0x2800;
const heights = ' ▁▂▃▄▅▆▇█';

const minPlotColumns = 20;
const maxColumns = 96;
const labelWidth = 6;

type Cell = [text: string, tone: Tone | undefined];

interface Canvas {
  plot: Plot;
  scale: DurationScale;
  columns: number;
  rows: number;
}

const beforeFirstBoot = { share: 1, low: 1, high: 1 };

/** Returns the curve and its band at a place from 0 (left) to 1 (right). */
const shareAt = ({ plot, scale }: Canvas, place: number) =>
  plot.survival.findLast(({ seconds }) => seconds <= secondsAt(place, scale)) ?? beforeFirstBoot;

/** Returns the dots of the curve in each cell. Draws a drop as a vertical line. */
function curveDots(canvas: Canvas): number[][] {
  const { columns, rows } = canvas;
  const cells = Array.from({ length: rows }, () => new Array<number>(columns).fill(0));
  const lowest = rows * 4 - 1;
  let lastY: number | undefined;
  for (let x = 0; x < columns * 2; x++) {
    const y = Math.round((1 - shareAt(canvas, (x + 0.5) / (columns * 2)).share) * lowest);
    for (let dot = Math.min(lastY ?? y, y); dot <= y; dot++) {
      const row = cells[Math.floor(dot / 4)];
      const column = Math.floor(x / 2);
      if (row) row[column] = (row[column] ?? 0) | (dotBits[x % 2]?.[dot % 4] ?? 0);
    }
    lastY = y;
  }
  return cells;
}

function isInBand(canvas: Canvas, row: number, column: number): boolean {
  const { low, high } = shareAt(canvas, (column + 0.5) / canvas.columns);
  const share = 1 - (row + 0.5) / canvas.rows;
  return share >= low && share <= high;
}

const columnOf = ({ scale, columns }: Canvas, seconds: number): number =>
  Math.min(columns - 1, Math.floor(placeOf(seconds, scale) * columns));

function curveRow(canvas: Canvas, row: number, dots: readonly number[]): Cell[] {
  const budget = columnOf(canvas, canvas.plot.budget_seconds);
  return dots.map((bits, column): Cell => {
    if (column === budget) return ['┃', 'bad'];
    if (bits > 0) return [String.fromCodePoint(brailleBase + bits), undefined];
    return isInBand(canvas, row, column) ? ['░', 'quiet'] : [' ', undefined];
  });
}

function histogram(canvas: Canvas): Cell[] {
  const counts = new Array<number>(canvas.columns).fill(0);
  for (const seconds of canvas.plot.seconds) {
    const column = columnOf(canvas, seconds);
    counts[column] = (counts[column] ?? 0) + 1;
  }
  const highest = Math.max(1, ...counts);
  const budget = columnOf(canvas, canvas.plot.budget_seconds);
  return counts.map((count, column): Cell => {
    // A single boot stays visible among a thousand.
    const height = count === 0 ? 0 : Math.max(1, Math.round((count / highest) * 8));
    return [heights[height] ?? ' ', column > budget ? 'bad' : 'busy'];
  });
}

const markText = (seconds: number): string => {
  if (seconds < 60) return `${seconds}s`;
  return seconds < 3600 ? `${seconds / 60}m` : `${seconds / 3600}h`;
};

/** Draws the axis with its marks and labels. Leaves out a label that does not fit. */
function axis(canvas: Canvas): [line: string, labels: string] {
  const line = new Array<string>(canvas.columns).fill('─');
  let labels = '';
  for (const seconds of marksOn(canvas.scale)) {
    const column = columnOf(canvas, seconds);
    const text = markText(seconds);
    const start = Math.max(0, column - Math.floor(text.length / 2));
    if (start + text.length > canvas.columns || (labels !== '' && start < labels.length + 2)) continue;
    line[column] = '┴';
    labels = labels.padEnd(start) + text;
  }
  line[columnOf(canvas, canvas.plot.budget_seconds)] = '┻';
  return [`└${line.join('')}`, labels];
}

/** Draws the label of the budget: right of its line if it fits there, or else left of it. */
function budgetLabel(canvas: Canvas): string {
  const column = columnOf(canvas, canvas.plot.budget_seconds);
  const text = `budget ${formatSeconds(canvas.plot.budget_seconds)}`;
  const isLeft = column + 2 + text.length > canvas.columns;
  return isLeft ? `${padStart(text, column - 1)} ▼` : `${' '.repeat(column)}▼ ${text}`;
}

/** Joins cells of the same colour, to print few escape sequences. */
function paintCells(cells: readonly Cell[], { paint }: Fit): string {
  const runs: Cell[] = [];
  for (const [text, tone] of cells) {
    const last = runs.at(-1);
    if (last && last[1] === tone) last[0] += text;
    else runs.push([text, tone]);
  }
  return runs.map(([text, tone]) => paint(tone, text)).join('');
}

export function survivalPlot(plot: Plot, rows: number, fit: Fit): string[] {
  const scale = scaleOver([...plot.seconds, plot.budget_seconds]);
  const columns = Math.max(minPlotColumns, Math.min(maxColumns, fit.width) - labelWidth - 2);
  const canvas: Canvas = { plot, scale, columns, rows };
  const label = (text: string) => fit.paint('quiet', padStart(text, labelWidth));
  const shares = new Map([
    [0, '100 %'],
    [Math.floor(rows / 2), '50 %'],
    [rows - 1, '0 %'],
  ]);
  const [line, labels] = axis(canvas);
  return [
    `${label('')}  ${fit.paint('bad', budgetLabel(canvas))}`,
    ...curveDots(canvas).map(
      (dots, row) => `${label(shares.get(row) ?? '')} │${paintCells(curveRow(canvas, row, dots), fit)}`,
    ),
    `${label('')} ${line}`,
    `${label('boots')}  ${paintCells(histogram(canvas), fit)}`,
    `${label('')}  ${fit.paint('quiet', labels)}`,
  ].map((text) => text.trimEnd());
}
