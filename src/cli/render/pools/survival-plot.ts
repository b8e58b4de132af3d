/**
 * The share of boots still on its way, drawn with characters: the curve in dots of a quarter of a line, its band in grey, the budget
 * as a line through it, and below the axis where the boots are. Pure.
 */
import { type DurationScale, marksOn, placeOf, scaleOver, secondsAt } from '../../../base/duration-scale.ts';
import type { BootPhase } from '../../../contract/supervision/boots.ts';
import { inSeconds } from '../../../lifecycle/boots/what-if-words.ts';
import type { Tone } from '../text/palette.ts';
import type { Fit } from '../text/table.ts';
import { padStart } from '../text/text.ts';

export interface Plot {
  survival: BootPhase['survival'];
  /** How long each boot on record took. */
  seconds: readonly number[];
  budget_seconds: number;
}

/** A cell has two dots beside each other and four above each other; which bit is which is as the standard has it. */
const dotBits = [
  [0x01, 0x02, 0x04, 0x40],
  [0x08, 0x10, 0x20, 0x80],
] as const;
const firstDots = 0x2800;
const heights = ' ▁▂▃▄▅▆▇█';

const most = 96;
const labelWidth = 6;

type Cell = [text: string, tone: Tone | undefined];

interface Ground {
  plot: Plot;
  scale: DurationScale;
  columns: number;
  rows: number;
}

const everybody = { share: 1, low: 1, high: 1 };

/** Where the curve and its band stand at a place between the left end and the right one. */
const shareAt = ({ plot, scale }: Ground, place: number) =>
  plot.survival.findLast(({ seconds }) => seconds <= secondsAt(place, scale)) ?? everybody;

/** For each cell the dots of the curve in it, joined where it falls. */
function curveDots(ground: Ground): number[][] {
  const { columns, rows } = ground;
  const cells = Array.from({ length: rows }, () => new Array<number>(columns).fill(0));
  const lowest = rows * 4 - 1;
  let before: number | undefined;
  for (let x = 0; x < columns * 2; x++) {
    const y = Math.round((1 - shareAt(ground, (x + 0.5) / (columns * 2)).share) * lowest);
    for (let dot = Math.min(before ?? y, y); dot <= y; dot++) {
      const row = cells[Math.floor(dot / 4)];
      const column = Math.floor(x / 2);
      if (row) row[column] = (row[column] ?? 0) | (dotBits[x % 2]?.[dot % 4] ?? 0);
    }
    before = y;
  }
  return cells;
}

function isInBand(ground: Ground, row: number, column: number): boolean {
  const { low, high } = shareAt(ground, (column + 0.5) / ground.columns);
  const share = 1 - (row + 0.5) / ground.rows;
  return share >= low && share <= high;
}

const columnOf = ({ scale, columns }: Ground, seconds: number): number =>
  Math.min(columns - 1, Math.floor(placeOf(seconds, scale) * columns));

function curveRow(ground: Ground, row: number, dots: readonly number[]): Cell[] {
  const budget = columnOf(ground, ground.plot.budget_seconds);
  return dots.map((bits, column): Cell => {
    if (column === budget) return ['┃', 'bad'];
    if (bits > 0) return [String.fromCodePoint(firstDots + bits), undefined];
    return isInBand(ground, row, column) ? ['░', 'quiet'] : [' ', undefined];
  });
}

function boots(ground: Ground): Cell[] {
  const counts = new Array<number>(ground.columns).fill(0);
  for (const seconds of ground.plot.seconds) {
    const column = columnOf(ground, seconds);
    counts[column] = (counts[column] ?? 0) + 1;
  }
  const highest = Math.max(1, ...counts);
  const budget = columnOf(ground, ground.plot.budget_seconds);
  return counts.map((count, column): Cell => {
    // One boot among a thousand is still seen.
    const height = count === 0 ? 0 : Math.max(1, Math.round((count / highest) * 8));
    return [heights[height] ?? ' ', column > budget ? 'bad' : 'busy'];
  });
}

const markWords = (seconds: number): string => {
  if (seconds < 60) return `${seconds}s`;
  return seconds < 3600 ? `${seconds / 60}m` : `${seconds / 3600}h`;
};

/** The axis with its marks, and under it their words; a word that has no room is left out. */
function axis(ground: Ground): [line: string, words: string] {
  const line = new Array<string>(ground.columns).fill('─');
  let words = '';
  for (const seconds of marksOn(ground.scale)) {
    const column = columnOf(ground, seconds);
    const word = markWords(seconds);
    const start = Math.max(0, column - Math.floor(word.length / 2));
    if (start + word.length > ground.columns || (words !== '' && start < words.length + 2)) continue;
    line[column] = '┴';
    words = words.padEnd(start) + word;
  }
  line[columnOf(ground, ground.plot.budget_seconds)] = '┻';
  return [`└${line.join('')}`, words];
}

/** Beside its line where there is room, else before it. */
function flag(ground: Ground): string {
  const column = columnOf(ground, ground.plot.budget_seconds);
  const words = `budget ${inSeconds(ground.plot.budget_seconds)}`;
  const isBefore = column + 2 + words.length > ground.columns;
  return isBefore ? `${padStart(words, column - 1)} ▼` : `${' '.repeat(column)}▼ ${words}`;
}

/** Joins what has the same colour, so that a line is not made of escapes. */
function painted(cells: readonly Cell[], { paint }: Fit): string {
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
  const columns = Math.max(20, Math.min(most, fit.width) - labelWidth - 2);
  const ground: Ground = { plot, scale, columns, rows };
  const label = (text: string) => fit.paint('quiet', padStart(text, labelWidth));
  const shares = new Map([
    [0, '100 %'],
    [Math.floor(rows / 2), '50 %'],
    [rows - 1, '0 %'],
  ]);
  const [line, words] = axis(ground);
  return [
    `${label('')}  ${fit.paint('bad', flag(ground))}`,
    ...curveDots(ground).map(
      (dots, row) => `${label(shares.get(row) ?? '')} │${painted(curveRow(ground, row, dots), fit)}`,
    ),
    `${label('')} ${line}`,
    `${label('boots')}  ${painted(boots(ground), fit)}`,
    `${label('')}  ${fit.paint('quiet', words)}`,
  ].map((text) => text.trimEnd());
}
