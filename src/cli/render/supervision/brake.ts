/** Renders the brake: holds, maintenance windows, and gaps of the control plane. */
import type { Brake } from '../../../contract/supervision/supervision.ts';
import {
  formatAge,
  formatAgeSince,
  formatDuration,
  formatRelative,
  momentInFull,
  secondsSince,
} from '../text/duration.ts';
import { hintLines, type RenderContext } from '../text/hints.ts';
import { type Column, type Fact, renderFacts, renderTable } from '../text/table.ts';
import { printable, wrap } from '../text/text.ts';
import { maintenanceColumns } from './maintenance.ts';

type Hold = Brake['holds'][number];
type Gap = Brake['gaps'][number];

export const isOpenHold = (hold: Hold): boolean => hold.ended_at === null && hold.resumed_at === null;

const effects: Record<Hold['effect'], string> = {
  hold: 'Its verdicts wait: no machine fails or is destroyed. A machine that recovers leaves the hold.',
  'pause-launches': 'Failed machines stay failed, and nothing new is launched there.',
};

const endTexts: Record<Hold['effect'], string> = {
  hold: 'then a few verdicts per minute',
  'pause-launches': 'or until a machine comes up there',
};

const scopeText = ({ scope, name }: Hold) => `${scope} ${name}`;

function holdLines(hold: Hold, context: RenderContext): string[] {
  const { paint, width, nowMs, commandLine } = context;
  const until = `Until ${momentInFull(hold.held_until)} (${formatRelative(hold.held_until, nowMs)}), ${endTexts[hold.effect]}.`;
  return [
    `${paint('warn', '!')} ${paint('strong', `${hold.rule} in ${scopeText(hold)}`)}, for ${formatAgeSince(hold.since, nowMs)}`,
    ...[`${printable(hold.reason)}.`, `${effects[hold.effect]} ${until}`].flatMap((text) =>
      wrap(text, width - 2).map((line) => `  ${line}`),
    ),
    ...hintLines(
      [['Release this hold', commandLine('brake', 'resume', '--hold', hold.hold_id, '--reason', '"…"')]],
      context.paint,
    ),
  ];
}

const endOf = (hold: Hold, nowMs: number) => {
  if (hold.resumed_at)
    return `released ${formatRelative(hold.resumed_at, nowMs)} by ${printable(hold.resumed_by?.name ?? 'an unknown actor')}`;
  return hold.ended_at ? `ended ${formatRelative(hold.ended_at, nowMs)}` : '';
};

const pastColumns = (nowMs: number): Column<Hold>[] => [
  { title: 'RULE', value: (hold) => hold.rule },
  { title: 'WHERE', value: scopeText, shrinks_to: 12 },
  { title: 'BEGAN', value: (hold) => formatRelative(hold.since, nowMs) },
  { title: 'END', value: (hold) => endOf(hold, nowMs), shrinks_to: 12 },
  { title: 'WHY', value: (hold) => printable(hold.reason), drop: 5, below: true },
];

const gapColumns = (nowMs: number): Column<Gap>[] => [
  { title: 'ENDED', value: (gap) => formatRelative(gap.ended_at, nowMs) },
  { title: 'LASTED', value: (gap) => formatDuration(gap.seconds), align: 'right' },
  { title: 'DEADLINES MOVED', value: (gap) => String(gap.deadlines_moved), align: 'right' },
  { title: 'WHY', value: (gap) => printable(gap.cause), drop: 5, below: true },
];

const maxPast = 5;

const titledSection = (title: string, lines: string[], { paint }: RenderContext): string[] =>
  lines.length === 0 ? [] : ['', paint('strong', title), ...lines];

/** Renders the newest rows, and the number of the others. */
const newestRows = <Row>(columns: Column<Row>[], rows: Row[], context: RenderContext): string[] =>
  rows.length === 0
    ? []
    : [
        ...renderTable(columns, rows.slice(0, maxPast), context),
        ...(rows.length > maxPast ? [context.paint('quiet', `… and ${rows.length - maxPast} more; see --json`)] : []),
      ];

/** Replicas process heartbeats several times a second, so a longer lag is worth a sentence. */
const normalLagSeconds = 10;

function heartbeatLag({ heard_through, at }: Brake): string {
  const lagSeconds = heard_through === null ? null : secondsSince(heard_through, Date.parse(at));
  if (lagSeconds === null) return 'No replica has reported its heartbeats yet.';
  return lagSeconds < normalLagSeconds
    ? 'All heartbeats are processed.'
    : `Heartbeats of the last ${formatAge(lagSeconds)} are not processed yet; no machine goes offline because of that.`;
}

function headline(brake: Brake, { paint }: RenderContext): string {
  const held = brake.held.reduce((sum, { nodes }) => sum + nodes, 0);
  if (brake.holding)
    return paint(
      'warn',
      held === 0 ? '! The brake is on.' : `! ${held} ${held === 1 ? 'verdict is' : 'verdicts are'} held back.`,
    );
  return `${paint('good', '✔')} ${paint('strong', 'Nothing is held back.')} ${heartbeatLag(brake)}`;
}

const heldFacts = ({ held }: Brake): Fact[] =>
  held.map(({ rule, kind, nodes }) => [rule, `${nodes} ${nodes === 1 ? 'node' : 'nodes'}, ${kind}`]);

export function brakeLines(brake: Brake, context: RenderContext): string[] {
  const { nowMs, commandLine, paint } = context;
  const openHolds = brake.holds.filter(isOpenHold);
  const pastHolds = brake.holds.filter((hold) => !isOpenHold(hold));
  return [
    headline(brake, context),
    ...renderFacts(heldFacts(brake), context),
    ...(brake.held.length > 0 ? hintLines([['List the nodes', commandLine('nodes', '--held')]], paint) : []),
    ...(brake.holding ? [`  ${heartbeatLag(brake)}`] : []),
    ...openHolds.flatMap((hold) => ['', ...holdLines(hold, context)]),
    ...titledSection('Maintenance', renderMaintenance(brake, context), context),
    ...titledSection('Earlier holds', newestRows(pastColumns(nowMs), pastHolds, context), context),
    ...titledSection('Gaps of the control plane', newestRows(gapColumns(nowMs), brake.gaps, context), context),
  ];
}

const renderMaintenance = ({ maintenance }: Brake, context: RenderContext): string[] =>
  maintenance.length === 0 ? [] : renderTable(maintenanceColumns(context.nowMs), maintenance, context);
