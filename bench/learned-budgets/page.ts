/**
 * Renders the tables of docs/explanation/learned-budgets.md and inserts them into the page. Pure.
 */
import {
  claimsOf,
  compareWithFixed,
  dominatedPools,
  type FixedComparison,
  fleetTallies,
  frontierOf,
  measuresOf,
  type Relation,
  timesFewer,
} from './compare.ts';
import { fixedBudgets, pools as parameters } from './parameters.ts';
import { policies, type Tally } from './policies.ts';
import { fixedName, fullPolicyName, type PoolResult, type Result } from './tally.ts';

const start = '<!-- made by bench/learned-budgets/learned-budgets.ts: from here -->';
const end = '<!-- made by bench/learned-budgets/learned-budgets.ts: to here -->';

const marks: Record<Relation, string> = { dominates: '**✓**', even: '=', trades: '⇄', loses: '**✗**' };

/** Enough digits to show that a value is not zero. */
export const perThousand = (value: number): string => {
  if (value === 0) return '0';
  if (value < 0.01) return '< 0.01';
  return value.toFixed(value < 10 ? 2 : 0);
};
const whole = (value: number): string => value.toFixed(0);
const times = (value: number): string => (Number.isFinite(value) ? `${value.toFixed(value < 10 ? 1 : 0)} ×` : '∞');

/** Pads the cells, so that the Markdown source is readable as a table too. */
export function table(head: string[], rows: string[][]): string {
  const widths = head.map((cell, column) => Math.max(3, cell.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: string[]) =>
    `| ${cells.map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join(' | ')} |`;
  const rule = widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [line(head), `| ${rule.join(' | ')} |`, ...rows.map(line)].join('\n');
}

const medianOf = (pool: string): string => {
  const poolParameters = parameters.find(({ name }) => name === pool);
  return poolParameters ? `${poolParameters.median_seconds} s` : '';
};

const tallyOf = ({ tallies }: Pick<PoolResult, 'tallies'>, name: string): Tally => {
  const tally = tallies[name];
  if (!tally) throw new Error(`no policy is called ${name}`);
  return tally;
};

const cellOf = ({ fixed, relation }: FixedComparison): string => `${perThousand(fixed.false_kills)} ${marks[relation]}`;

function poolsTable({ pools }: Result): string {
  const head = [
    'pool',
    'median',
    'false kills',
    'taken back',
    'found after',
    ...fixedBudgets.map((each) => `${each} s`),
  ];
  const rows = pools.map((result) => {
    const { false_kills, rescued, found } = measuresOf(tallyOf(result, fullPolicyName));
    const learned = [perThousand(false_kills), perThousand(rescued), `${whole(found)} s`];
    return [result.pool, medianOf(result.pool), ...learned, ...compareWithFixed(result, fullPolicyName).map(cellOf)];
  });
  return table(head, rows);
}

function fleetTable(result: Result): string {
  const fleet = fleetTallies(result);
  const [first] = fixedBudgets;
  const rows = Object.entries(fleet).map(([name, tally]) => {
    const { false_kills, rescued, found, burnt } = measuresOf(tally);
    const counts = fixedBudgets.map((seconds) => whole(dominatedPools(result, name, seconds).allowed));
    const isFixed = fixedBudgets.some((seconds) => fixedName(seconds) === name);
    return [
      ...[name, perThousand(false_kills), times(timesFewer(fleet, name, first)), perThousand(rescued)],
      ...[`${whole(found)} s`, `${burnt.toFixed(1)} h`, isFixed ? '' : counts.join(' · ')],
    ];
  });
  const dominated = `pools where it dominates ${fixedBudgets.join(' · ')}`;
  const fewer = `fewer than ${first} s`;
  return table(['policy', 'false kills', fewer, 'taken back', 'found after', 'burnt', dominated], rows);
}

function partsTable({ pools }: Result): string {
  const rows = pools.map((result) => [
    result.pool,
    ...policies.map(({ name }) => {
      const { false_kills, found } = measuresOf(tallyOf(result, name));
      return `${perThousand(false_kills)} / ${whole(found)} s`;
    }),
  ]);
  return table(['pool', ...policies.map(({ name }) => name)], rows);
}

function frontierTable({ pools }: Result): string {
  const rows = pools.map((result) => {
    const { false_kills, found } = measuresOf(tallyOf(result, fullPolicyName));
    const { as_safe_seconds, as_quick } = frontierOf(result, fullPolicyName);
    return [
      ...[result.pool, `${perThousand(false_kills)} / ${whole(found)} s`],
      as_safe_seconds === null ? 'none' : `${as_safe_seconds} s`,
      as_quick === null ? 'none' : `${as_quick.seconds} s, ${perThousand(as_quick.false_kills)}`,
      `${whole(result.budgets.at(-1) ?? 0)} s`,
    ];
  });
  const head = [
    'pool',
    'learned',
    'kills no more: from',
    'finds no later: up to, and kills',
    'learned budget at the end',
  ];
  return table(head, rows);
}

function seedsSentence({ fleets }: Result): string {
  const ratios = fleets
    .map((tallies) => timesFewer(tallies, fullPolicyName, fixedBudgets[0]))
    .toSorted((a, b) => a - b);
  const [least = 0, middle = 0, most = 0] = [ratios[0], ratios[ratios.length >> 1], ratios.at(-1)];
  return `Seed by seed it kills between ${times(least)} and ${times(most)} fewer than ${fixedName(fixedBudgets[0])}, ${times(middle)} in the middle.`;
}

const claimLines = (result: Result): string =>
  claimsOf(result)
    .map(({ what, found, holds }) => `- ${holds ? 'holds' : '**does not hold**'}: ${what} (${found})`)
    .join('\n');

/** The text between the two markers. */
export function writeTables(result: Result): string {
  const boots = result.pools.reduce((sum, pool) => {
    const { completing, stuck } = tallyOf(pool, fullPolicyName);
    return sum + completing + stuck;
  }, 0);
  return [
    `${result.seeds} seeds, ${boots.toLocaleString('en')} boots.`,
    `### Whether the claims hold\n\n${claimLines(result)}\n\n${seedsSentence(result)}`,
    `### Pool by pool\n\n${poolsTable(result)}`,
    `### The whole fleet, and which part does what\n\n${fleetTable(result)}`,
    `### Each part, pool by pool\n\n${partsTable(result)}`,
    `### Beside every fixed budget\n\n${frontierTable(result)}`,
  ].join('\n\n');
}

/** Returns the page with these tables in place of the previous ones. */
export function insertTables(page: string, tables: string): string {
  const [before, rest] = page.split(start);
  const after = rest?.split(end)[1];
  if (before === undefined || after === undefined) throw new Error('the page lacks its two markers');
  return `${before}${start}\n\n${tables}\n\n${end}${after}`;
}
