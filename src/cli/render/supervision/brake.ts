/** What the brake holds, what the control plane missed itself, and where somebody works: for a person on call. */
import type { Brake } from '../../../contract/supervision/supervision.ts';
import { type ClosingContext, hintLines } from '../allocations/outcome.ts';
import { age, ageSince, momentInFull, relative, secondsSince, taken } from '../text/duration.ts';
import { type Column, type Fact, renderFacts, renderTable } from '../text/table.ts';
import { printable, wrap } from '../text/text.ts';
import { maintenanceColumns } from './maintenance.ts';

type Hold = Brake['holds'][number];
type Gap = Brake['gaps'][number];

export const isOpenHold = (hold: Hold): boolean => hold.ended_at === null && hold.resumed_at === null;

const effects: Record<Hold['effect'], string> = {
  hold: 'Its verdicts wait: nobody is given up or destroyed by it. What comes back by itself is let go.',
  'pause-launches': 'The failures stand, and nothing new is launched there meanwhile.',
};

const afterwards: Record<Hold['effect'], string> = {
  hold: 'then it goes on slowly, a few a minute',
  'pause-launches': 'or until a machine comes up there',
};

const where = ({ scope, name }: Hold) => `${scope} ${name}`;

/** A hold on one screen: what, why, what it does, until when, and the way out. */
function holdLines(hold: Hold, context: ClosingContext): string[] {
  const { paint, width, nowMs, commandLine } = context;
  const until = `Until ${momentInFull(hold.held_until)} (${relative(hold.held_until, nowMs)}), ${afterwards[hold.effect]}.`;
  return [
    `${paint('warn', '!')} ${paint('strong', `${hold.rule} in ${where(hold)}`)}, for ${ageSince(hold.since, nowMs)}`,
    ...[`${printable(hold.reason)}.`, `${effects[hold.effect]} ${until}`].flatMap((text) =>
      wrap(text, width - 2).map((line) => `  ${line}`),
    ),
    ...hintLines(
      [['Let it go on', commandLine('brake', 'resume', '--hold', hold.hold_id, '--reason', '"…"')]],
      context.paint,
    ),
  ];
}

const endOf = (hold: Hold, nowMs: number) => {
  if (hold.resumed_at)
    return `let go ${relative(hold.resumed_at, nowMs)} by ${printable(hold.resumed_by?.name ?? 'somebody')}`;
  return hold.ended_at ? `over ${relative(hold.ended_at, nowMs)}` : '';
};

const pastColumns = (nowMs: number): Column<Hold>[] => [
  { title: 'RULE', value: (hold) => hold.rule },
  { title: 'WHERE', value: where, shrinks_to: 12 },
  { title: 'BEGAN', value: (hold) => relative(hold.since, nowMs) },
  { title: 'END', value: (hold) => endOf(hold, nowMs), shrinks_to: 12 },
  { title: 'WHY', value: (hold) => printable(hold.reason), drop: 5, below: true },
];

const gapColumns = (nowMs: number): Column<Gap>[] => [
  { title: 'ENDED', value: (gap) => relative(gap.ended_at, nowMs) },
  { title: 'LASTED', value: (gap) => taken(gap.seconds), align: 'right' },
  { title: 'DEADLINES MOVED', value: (gap) => String(gap.deadlines_moved), align: 'right' },
  { title: 'WHY', value: (gap) => printable(gap.cause), drop: 5, below: true },
];

const mostPast = 5;

const titled = (title: string, lines: string[], { paint }: ClosingContext): string[] =>
  lines.length === 0 ? [] : ['', paint('strong', title), ...lines];

/** Some of many, and how many there are besides. */
const some = <Row>(columns: Column<Row>[], rows: Row[], context: ClosingContext): string[] =>
  rows.length === 0
    ? []
    : [
        ...renderTable(columns, rows.slice(0, mostPast), context),
        ...(rows.length > mostPast ? [context.paint('quiet', `… and ${rows.length - mostPast} more; see --json`)] : []),
      ];

/** Longer than this without hearing everything is worth a word; it is heard several times a second. */
const quietSeconds = 10;

function hearing({ heard_through, at }: Brake): string {
  const behind = heard_through === null ? null : secondsSince(heard_through, Date.parse(at));
  if (behind === null) return 'No replica has said yet what it has heard.';
  return behind < quietSeconds
    ? 'Everything the machines said has been heard.'
    : `What the machines said in the last ${age(behind)} has not been heard everywhere; nobody is called silent for it.`;
}

function headline(brake: Brake, { paint }: ClosingContext): string {
  const held = brake.held.reduce((sum, { nodes }) => sum + nodes, 0);
  if (brake.holding)
    return paint(
      'warn',
      held === 0 ? '! The brake is on.' : `! ${held} ${held === 1 ? 'verdict is' : 'verdicts are'} held back.`,
    );
  return `${paint('good', '✔')} ${paint('strong', 'All is well with the brake: nothing is held back.')} ${hearing(brake)}`;
}

const heldFacts = ({ held }: Brake): Fact[] =>
  held.map(({ rule, kind, nodes }) => [rule, `${nodes} ${nodes === 1 ? 'node' : 'nodes'}, ${kind}`]);

export function brakeLines(brake: Brake, context: ClosingContext): string[] {
  const { nowMs, commandLine, paint } = context;
  const open = brake.holds.filter(isOpenHold);
  const past = brake.holds.filter((hold) => !isOpenHold(hold));
  return [
    headline(brake, context),
    ...renderFacts(heldFacts(brake), context),
    ...(brake.held.length > 0 ? hintLines([['Which nodes', commandLine('nodes', '--held')]], paint) : []),
    ...(brake.holding ? [`  ${hearing(brake)}`] : []),
    ...open.flatMap((hold) => ['', ...holdLines(hold, context)]),
    ...titled('Maintenance', renderMaintenance(brake, context), context),
    ...titled('Earlier', some(pastColumns(nowMs), past, context), context),
    ...titled('When the control plane itself was away', some(gapColumns(nowMs), brake.gaps, context), context),
  ];
}

const renderMaintenance = ({ maintenance }: Brake, context: ClosingContext): string[] =>
  maintenance.length === 0 ? [] : renderTable(maintenanceColumns(context.nowMs), maintenance, context);
