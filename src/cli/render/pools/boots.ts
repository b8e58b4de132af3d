/** Renders the recorded boots of a pool: a plot on a terminal, percentiles, and the budget. */
import type { BootPhase, PoolBoots } from '../../../contract/supervision/boots.ts';
import { stratumWords } from '../../../lifecycle/boots/learned-budget.ts';
import { hasArrived } from '../../../lifecycle/boots/survival.ts';
import { formatSeconds, sourceWords, tooSlowWords } from '../../../lifecycle/boots/what-if-words.ts';
import { formatRelative, momentsInFull } from '../text/duration.ts';
import { hintLines, type RenderContext } from '../text/hints.ts';
import { type Fact, renderFacts } from '../text/table.ts';
import { printable, wrap } from '../text/text.ts';
import { survivalPlot } from './survival-plot.ts';

export interface BootsContext extends RenderContext {
  /** False for a pipe. */
  drawsPlots: boolean;
}

const phaseSpans: Record<BootPhase['phase'], string> = {
  provision: 'from launch until the machine registers',
  start: 'from registration until the machine is ready',
};

const tallPlotRows = 12;
const flatPlotRows = 7;

/** The same margin as for a learned budget. */
const suggestedMargin = 1.5;
/** A budget that fails more healthy boots than this share is shown as a warning. */
const worryingShare = 0.01;

type Quantile = 'p50' | 'p90' | 'p99';
const quantileNames: [Quantile, string][] = [
  ['p50', 'half within'],
  ['p90', '90 of 100 within'],
  ['p99', '99 of 100 within'],
];

/** With few slow boots the upper end of the band is unknown. */
function bandText(low_seconds: number | null, high_seconds: number | null): string {
  if (low_seconds === null) return '';
  const low = formatSeconds(low_seconds);
  return `(95 % sure: ${high_seconds === null ? `at least ${low}` : `${low} to ${formatSeconds(high_seconds)}`})`;
}

function quantileFact(phase: BootPhase, quantile: Quantile, name: string): Fact {
  const seconds = phase[`${quantile}_seconds`];
  if (seconds === null) return [name, null];
  const { low_seconds, high_seconds } = phase.bands[quantile];
  return [name, [formatSeconds(seconds), bandText(low_seconds, high_seconds)].join('  ').trimEnd()];
}

function tooSlowFact({ predicted_false_kill_share: predicted, samples }: BootPhase): Fact {
  if (!predicted) return ['over the budget', null];
  const words = tooSlowWords(predicted, samples.filter(hasArrived).length);
  return ['over the budget', words, predicted.share > worryingShare ? 'warn' : undefined];
}

const budgetText = ({ budget_seconds, budget_source, rescue_seconds }: BootPhase): string =>
  `${formatSeconds(budget_seconds)}, ${sourceWords[budget_source]}; a boot up to ${formatSeconds(rescue_seconds)} later is rescued`;

/** Says which policy the budget has, and what a learned budget was learned from. */
function policyFacts({ policy, learning, budget_seconds }: BootPhase, { nowMs }: RenderContext): Fact[] {
  if (policy === 'fixed') return [['policy', 'fixed: the budget stays until someone changes it']];
  if (!learning) return [['policy', 'learned: recorded boots move it; not computed yet']];
  const { aim_seconds, because, stratum, considered_at, frozen } = learning;
  const aim = aim_seconds === budget_seconds ? '' : `; moving to ${formatSeconds(aim_seconds)}`;
  return [
    ['policy', `learned: recorded boots move it, by at most 25 % a day${aim}`],
    ['because', printable(because)],
    ['learned from', stratum && stratumWords[stratum]],
    ['considered', formatRelative(considered_at, nowMs)],
    ['frozen', frozen && momentsInFull(printable(frozen)), 'warn'],
  ];
}

function sinceChangeFact({ since_change: { at, boots, late, killed } }: BootPhase, { nowMs }: RenderContext): Fact {
  const parts = [`${boots} ${boots === 1 ? 'boot' : 'boots'}`, `${late} late`, `${killed} failed for good`];
  return [
    'since the change',
    `${parts.join(', ')}  (${formatRelative(at, nowMs)})`,
    late + killed > 0 ? 'warn' : undefined,
  ];
}

const countText = ({ samples, running }: BootPhase): string => {
  const recorded = samples.length === 1 ? '1 boot' : `the newest ${samples.length} boots`;
  return running === 0 ? recorded : `${recorded}, and ${running} in progress`;
};

const historyHint = (pool: string, commandLine: BootsContext['commandLine']): [string, string] => [
  'See changes of the budget',
  commandLine('audit', '--target', pool, '--kind', 'budget.learned'),
];

function phaseLines(pool: string, phase: BootPhase, rows: number, context: BootsContext): string[] {
  const { paint, width, commandLine } = context;
  const title = `${paint('strong', `${pool} · ${phase.phase}`)}, ${phaseSpans[phase.phase]}`;
  if (phase.samples.length === 0)
    return [
      title,
      ...wrap(`No boot is recorded yet${phase.running > 0 ? `; ${phase.running} in progress` : ''}.`, width - 2).map(
        (line) => `  ${line}`,
      ),
      ...renderFacts([['budget', budgetText(phase)], ...policyFacts(phase, context)], context),
    ];
  const { survival, budget_seconds } = phase;
  const seconds = phase.samples.map((sample) => sample.seconds);
  const budgetToTry = Math.round((phase.p99_seconds ?? budget_seconds) * suggestedMargin);
  const forPhase = phase.phase === 'provision' ? [] : ['--phase', phase.phase];
  return [
    title,
    ...(context.drawsPlots ? ['', ...survivalPlot({ survival, seconds, budget_seconds }, rows, context), ''] : []),
    ...renderFacts(
      [
        ['recorded', countText(phase)],
        ...quantileNames.map(([quantile, name]) => quantileFact(phase, quantile, name)),
        ['budget', budgetText(phase)],
        tooSlowFact(phase),
        sinceChangeFact(phase, context),
        ...policyFacts(phase, context),
      ],
      context,
    ),
    ...hintLines(
      [
        ['Try another budget', commandLine('what-if', pool, '--budget', String(Math.max(1, budgetToTry)), ...forPhase)],
        ...(phase.policy === 'learned' ? [historyHint(pool, commandLine)] : []),
      ],
      paint,
    ),
  ];
}

const legend = 'curve: the share of boots in progress · ░ its 95 % confidence band · ┃ the budget';

function lastChangeLine({ make: { image, since, generation } }: PoolBoots, { nowMs }: RenderContext): string {
  const parts = image === null ? 'its image, spec and class' : `image ${printable(image)}, its spec and class`;
  return `The pool (${parts}) last changed ${formatRelative(since, nowMs)}, with generation ${generation}.`;
}

export function bootsLines(boots: PoolBoots, phases: readonly BootPhase[], context: BootsContext): string[] {
  const { paint, drawsPlots } = context;
  const rows = phases.length === 1 ? tallPlotRows : flatPlotRows;
  const hasPlot = drawsPlots && phases.some(({ samples }) => samples.length > 0);
  return [
    ...phases.flatMap((phase, i) => [...(i > 0 ? [''] : []), ...phaseLines(boots.pool, phase, rows, context)]),
    '',
    ...wrap(lastChangeLine(boots, context), context.width).map((line) => paint('quiet', line)),
    ...(hasPlot ? wrap(legend, context.width).map((line) => paint('quiet', line)) : []),
  ];
}
