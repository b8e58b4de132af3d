/** How long the boots of a pool take and what budget they have, for a person: a plot where somebody looks, and what it comes to. */
import type { BootPhase, PoolBoots } from '../../../contract/supervision/boots.ts';
import { stratumWords } from '../../../lifecycle/boots/learned-budget.ts';
import { hasArrived } from '../../../lifecycle/boots/survival.ts';
import { inSeconds, sourceWords, tooSlowWords } from '../../../lifecycle/boots/what-if-words.ts';
import { type ClosingContext, hintLines } from '../allocations/outcome.ts';
import { momentsInFull, relative } from '../text/duration.ts';
import { type Fact, renderFacts } from '../text/table.ts';
import { printable, wrap } from '../text/text.ts';
import { survivalPlot } from './survival-plot.ts';

export interface BootsContext extends ClosingContext {
  /** Whether somebody looks: what a program reads has no pictures in it. */
  draws: boolean;
}

const phaseWords: Record<BootPhase['phase'], string> = {
  provision: 'from launch until it registers',
  start: 'from there until it is ready',
};

const tallPlot = 12;
const flatPlot = 7;

type Quantile = 'p50' | 'p90' | 'p99';
const quantileNames: [Quantile, string][] = [
  ['p50', 'half within'],
  ['p90', '90 of 100 within'],
  ['p99', '99 of 100 within'],
];

/** The slowest are few: where the boots on record end before the band does, only its near end is known. */
function bandWords(low_seconds: number | null, high_seconds: number | null): string {
  if (low_seconds === null) return '';
  const low = inSeconds(low_seconds);
  return `(95 % sure: ${high_seconds === null ? `at least ${low}` : `${low} to ${inSeconds(high_seconds)}`})`;
}

function quantileFact(phase: BootPhase, quantile: Quantile, name: string): Fact {
  const seconds = phase[`${quantile}_seconds`];
  if (seconds === null) return [name, null];
  const { low_seconds, high_seconds } = phase.bands[quantile];
  return [name, [inSeconds(seconds), bandWords(low_seconds, high_seconds)].join('  ').trimEnd()];
}

function tooSlow({ predicted_false_kill_share: predicted, samples }: BootPhase): Fact {
  if (!predicted) return ['too slow for it', null];
  const words = tooSlowWords(predicted, samples.filter(hasArrived).length);
  return ['too slow for it', words, predicted.share > 0.01 ? 'warn' : undefined];
}

const budgetWords = ({ budget_seconds, budget_source, rescue_seconds }: BootPhase): string =>
  `${inSeconds(budget_seconds)}, ${sourceWords[budget_source]}; who comes up to ${inSeconds(rescue_seconds)} later is rescued`;

/** What moves the budget, or that nothing does. */
function policyFacts({ policy, learning, budget_seconds }: BootPhase, { nowMs }: ClosingContext): Fact[] {
  if (policy === 'fixed') return [['policy', 'fixed: it stays until somebody changes it']];
  if (!learning) return [['policy', 'learned: boots move it; they have not been asked yet']];
  const { aim_seconds, because, stratum, considered_at, frozen } = learning;
  const aim = aim_seconds === budget_seconds ? '' : `; on its way to ${inSeconds(aim_seconds)}`;
  return [
    ['policy', `learned: boots move it, by at most 25 % a day${aim}`],
    ['because', printable(because)],
    ['learned from', stratum && stratumWords[stratum]],
    ['considered', relative(considered_at, nowMs)],
    ['frozen', frozen && momentsInFull(printable(frozen)), 'warn'],
  ];
}

function sinceChange({ since_change: { at, boots, late, killed } }: BootPhase, { nowMs }: ClosingContext): Fact {
  const parts = [`${boots} ${boots === 1 ? 'boot' : 'boots'}`, `${late} late`, `${killed} given up for good`];
  return ['since it changed', `${parts.join(', ')}  (${relative(at, nowMs)})`, late + killed > 0 ? 'warn' : undefined];
}

const countWords = ({ samples, running }: BootPhase): string => {
  const recorded = samples.length === 1 ? 'the only boot on record' : `the newest ${samples.length} boots`;
  return running === 0 ? recorded : `${recorded}, and ${running} on the way now`;
};

const everyMove = (pool: string, commandLine: BootsContext['commandLine']): [string, string] => [
  'See every move of it',
  commandLine('audit', '--target', pool, '--kind', 'budget.learned'),
];

function phaseLines(pool: string, phase: BootPhase, rows: number, context: BootsContext): string[] {
  const { paint, width, commandLine } = context;
  const title = `${paint('strong', `${pool} · ${phase.phase}`)}, ${phaseWords[phase.phase]}`;
  if (phase.samples.length === 0)
    return [
      title,
      ...wrap(
        `No boot is on record yet${phase.running > 0 ? `; ${phase.running} on the way now` : ''}.`,
        width - 2,
      ).map((line) => `  ${line}`),
      ...renderFacts([['budget', budgetWords(phase)], ...policyFacts(phase, context)], context),
    ];
  const { survival, budget_seconds } = phase;
  const seconds = phase.samples.map((sample) => sample.seconds);
  const tried = Math.round((phase.p99_seconds ?? budget_seconds) * 1.5);
  const forPhase = phase.phase === 'provision' ? [] : ['--phase', phase.phase];
  return [
    title,
    ...(context.draws ? ['', ...survivalPlot({ survival, seconds, budget_seconds }, rows, context), ''] : []),
    ...renderFacts(
      [
        ['on record', countWords(phase)],
        ...quantileNames.map(([quantile, name]) => quantileFact(phase, quantile, name)),
        ['budget', budgetWords(phase)],
        tooSlow(phase),
        sinceChange(phase, context),
        ...policyFacts(phase, context),
      ],
      context,
    ),
    ...hintLines(
      [
        ['Try another budget', commandLine('what-if', pool, '--budget', String(Math.max(1, tried)), ...forPhase)],
        ...(phase.policy === 'learned' ? [everyMove(pool, commandLine)] : []),
      ],
      paint,
    ),
  ];
}

const legend = 'curve: the share of boots still on its way · ░ where it lies with 95 % confidence · ┃ the budget';

function makeLine({ make: { image, since, generation } }: PoolBoots, { nowMs }: ClosingContext): string {
  const what = image === null ? 'its image, spec and class' : `image ${printable(image)}, its spec and class`;
  return `What the pool makes (${what}) was last changed ${relative(since, nowMs)}, by generation ${generation}.`;
}

export function bootsLines(boots: PoolBoots, phases: readonly BootPhase[], context: BootsContext): string[] {
  const { paint, draws } = context;
  const rows = phases.length === 1 ? tallPlot : flatPlot;
  const drawn = draws && phases.some(({ samples }) => samples.length > 0);
  return [
    ...phases.flatMap((phase, at) => [...(at > 0 ? [''] : []), ...phaseLines(boots.pool, phase, rows, context)]),
    '',
    ...wrap(makeLine(boots, context), context.width).map((line) => paint('quiet', line)),
    ...(drawn ? wrap(legend, context.width).map((line) => paint('quiet', line)) : []),
  ];
}
