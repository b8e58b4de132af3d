/**
 * Draws the comparison of learned and fixed budgets as SVG. Each pool has a panel with the curve of
 * the fixed budgets in `gridSeconds`, a dot for each of `fixedBudgets`, and a larger dot for the
 * learned budget. Pure.
 */
import { measuresOf } from './compare.ts';
import { fixedBudgets, pools as parameters } from './parameters.ts';
import { fullPolicyName, type PoolResult, type Result } from './tally.ts';

const columns = 4;
const [panelWidth, panelHeight] = [250, 196];
/** Margins inside a panel for title, ticks and labels. */
const inset = { top: 34, right: 20, bottom: 28, left: 48 };
const margin = { top: 64, side: 12, bottom: 34 };
const plot = { width: panelWidth - inset.left - inset.right, height: panelHeight - inset.top - inset.bottom };

/** Both axes are logarithmic. A value outside an axis is drawn at its end. */
const axes = {
  seconds_to_find: { min: 60, max: 3600, ticks: [60, 300, 900, 3600] },
  false_kills: { min: 0.01, max: 1000, ticks: [0.01, 1, 100] },
};
type Axis = (typeof axes)[keyof typeof axes];

const fractionAlong = ({ min, max }: Axis, value: number): number =>
  Math.log(Math.max(min, Math.min(max, value)) / min) / Math.log(max / min);
const formatNumber = (value: number): string => value.toFixed(1);
const x = (secondsToFind: number): string =>
  formatNumber(inset.left + fractionAlong(axes.seconds_to_find, secondsToFind) * plot.width);
const y = (falseKills: number): string =>
  formatNumber(inset.top + (1 - fractionAlong(axes.false_kills, falseKills)) * plot.height);

const style = `
  text { font: 11px system-ui, sans-serif; fill: var(--text) }
  .title { font-weight: 600; font-size: 12.5px } .head { font-weight: 600; font-size: 16px } .quiet { fill: var(--quiet) }
  .paper { fill: var(--paper) } .panel { fill: var(--panel); stroke: var(--line) }
  .grid { stroke: var(--line); stroke-width: 1 }
  .curve { fill: none; stroke: var(--fixed); stroke-width: 1.6 } .fixed { fill: var(--fixed) }
  .learned { fill: var(--learned); stroke: var(--panel); stroke-width: 1.5 } .worse { fill: var(--learned); opacity: 0.12 }
  svg { --paper: #ffffff; --panel: #f8f9fb; --line: #dfe3ea; --text: #1d2733; --quiet: #5a6675; --fixed: #7a8798; --learned: #0f7b5f }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #10151c; --panel: #171e27; --line: #2b3542; --text: #e6ebf2; --quiet: #9aa7b7; --fixed: #8b99ab; --learned: #3fcf9f }
  }`;

const text = (at: [string | number, string | number], words: string, kind = '', anchor = 'start'): string =>
  `<text x="${at[0]}" y="${at[1]}" class="${kind}" text-anchor="${anchor}">${words}</text>`;

function gridLines(): string[] {
  const [right, bottom] = [inset.left + plot.width, inset.top + plot.height];
  return [
    ...axes.seconds_to_find.ticks.map((tick) => {
      const line = `<line class="grid" x1="${x(tick)}" x2="${x(tick)}" y1="${inset.top}" y2="${bottom}"/>`;
      return line + text([x(tick), bottom + 15], `${tick}`, 'quiet', 'middle');
    }),
    ...axes.false_kills.ticks.map((tick) => {
      const line = `<line class="grid" x1="${inset.left}" x2="${right}" y1="${y(tick)}" y2="${y(tick)}"/>`;
      const isMin = tick === axes.false_kills.min;
      return line + text([inset.left - 6, Number(y(tick)) + 4], isMin ? `≤ ${tick}` : `${tick}`, 'quiet', 'end');
    }),
  ];
}

/** The area of points that are worse than the learned budget in both measures. */
function worseArea(secondsToFind: number, falseKills: number): string {
  const [left, top] = [Number(x(secondsToFind)), inset.top];
  return `<rect class="worse" x="${left}" y="${top}" width="${formatNumber(inset.left + plot.width - left)}" height="${formatNumber(Number(y(falseKills)) - top)}"/>`;
}

function panelOf({ pool, tallies, grid }: PoolResult, place: number): string {
  const median = parameters.find(({ name }) => name === pool)?.median_seconds ?? 0;
  const curve = grid.map(({ seconds, tally }) => `${x(seconds)},${y(measuresOf(tally).false_kills)}`).join(' ');
  const dots = fixedBudgets.flatMap((seconds) => {
    const tally = grid.find((point) => point.seconds === seconds)?.tally;
    if (!tally) return [];
    return [`<circle class="fixed" r="3.2" cx="${x(seconds)}" cy="${y(measuresOf(tally).false_kills)}"/>`];
  });
  const tally = tallies[fullPolicyName];
  if (!tally) throw new Error(`no policy is called ${fullPolicyName}`);
  const { found: secondsToFind, false_kills } = measuresOf(tally);
  const left = margin.side + (place % columns) * panelWidth;
  const top = margin.top + Math.floor(place / columns) * panelHeight;
  return [
    `<g transform="translate(${left} ${top})">`,
    `<rect class="panel" x="4" y="4" width="${panelWidth - 8}" height="${panelHeight - 8}" rx="6"/>`,
    text([14, 23], pool, 'title') + text([panelWidth - 14, 23], `median ${median} s`, 'quiet', 'end'),
    ...gridLines(),
    worseArea(secondsToFind, false_kills),
    `<polyline class="curve" points="${curve}"/>`,
    ...dots,
    `<circle class="learned" r="6" cx="${x(secondsToFind)}" cy="${y(false_kills)}"/>`,
    '</g>',
  ].join('\n');
}

export function drawFigure({ pools, seeds }: Result): string {
  const width = 2 * margin.side + columns * panelWidth;
  const height = margin.top + Math.ceil(pools.length / columns) * panelHeight + margin.bottom;
  const legend = [
    text([margin.side + 6, 26], 'False kills, against the time until a stuck boot is found', 'head'),
    `<circle class="learned" r="6" cx="${margin.side + 12}" cy="46"/>`,
    text([margin.side + 24, 50], 'learned budget with progress and rescue'),
    `<circle class="fixed" r="3.2" cx="${margin.side + 262}" cy="46"/>`,
    text(
      [margin.side + 272, 50],
      `fixed ${fixedBudgets.join(', ')} s, on the curve of fixed budgets from 60 to 3600 s`,
    ),
    `<rect class="worse" x="${margin.side + 630}" y="38" width="22" height="14"/>`,
    text([margin.side + 658, 50], 'worse than the learned budget in both measures'),
    text(
      [width / 2, height - 13],
      `x: mean seconds until a stuck boot is found · y: false kills per thousand boots that would have completed · ${seeds} seeds`,
      'quiet',
      'middle',
    ),
  ];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="For each pool, false kills against the time until a stuck boot is found: learned budgets compared with fixed budgets">`,
    `<style>${style}\n</style>`,
    `<rect class="paper" width="${width}" height="${height}" rx="8"/>`,
    ...legend,
    ...pools.map(panelOf),
    '</svg>\n',
  ].join('\n');
}
