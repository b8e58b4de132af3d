/**
 * The budget in force: its source, its policy, the boots since the last change, and how long boots
 * take.
 */
import type { BootPhase, PoolBoots } from '../../../../src/contract/supervision/boots.ts';
import { stratumWords } from '../../../../src/lifecycle/boots/learned-budget.ts';
import { hasArrived } from '../../../../src/lifecycle/boots/survival.ts';
import { formatSeconds, sourceWords, tooSlowWords } from '../../../../src/lifecycle/boots/what-if-words.ts';
import { type Fact, Facts } from '../../ui/layout/Facts.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import { withLocalTimes } from '../../ui/time/times.ts';
import styles from './BudgetFacts.module.css';
import { policyWords } from './budget-policy.ts';

interface Props {
  phase: BootPhase;
  make: PoolBoots['make'];
}

export function BudgetFacts({ phase, make }: Props) {
  const { budget_seconds, budget_source, policy, learning } = phase;
  return (
    <div className={styles.beside}>
      <Panel title="Budget in force">
        <div className={styles.budget}>
          <b className="tabular">{formatSeconds(budget_seconds)}</b> {sourceWords[budget_source]}
        </div>
        {learning?.frozen && <p className={styles.frozen}>Learning is paused: {withLocalTimes(learning.frozen)}</p>}
        <p className={styles.because}>{learning?.because ?? policyWords[policy]}</p>
        <Facts facts={budgetFacts(phase, make)} />
      </Panel>
      {phase.p50_seconds !== null && (
        <Panel title="Boots that arrive" flush>
          <Quantiles phase={phase} />
        </Panel>
      )}
    </div>
  );
}

function budgetFacts(
  { budget_seconds, policy, learning, since_change, rescue_seconds, predicted_false_kill_share, samples }: BootPhase,
  make: Props['make'],
): Fact[] {
  const { at, boots, late, killed } = since_change;
  return [
    ['Policy', policy],
    ['Moving towards', learning && learning.aim_seconds !== budget_seconds && formatSeconds(learning.aim_seconds)],
    ['Learned from', learning?.stratum && `${learning.completions} ${stratumWords[learning.stratum]}`],
    ['Considered', learning && <Ago at={learning.considered_at} />],
    [
      'Over budget',
      predicted_false_kill_share && tooSlowWords(predicted_false_kill_share, samples.filter(hasArrived).length),
    ],
    ['Rescued', `boots up to ${formatSeconds(rescue_seconds)} late`],
    [
      'Since the change',
      <>
        {boots} {boots === 1 ? 'boot' : 'boots'}, {late} late, {killed} given up for good; <Ago at={at} />
      </>,
    ],
    ['Image', make.image && <code>{make.image}</code>],
    [
      'Image and spec',
      <>
        unchanged for <Ago at={make.since} asAge />, generation {make.generation}
      </>,
    ],
  ];
}

const quantiles = [
  { name: 'half', seconds: 'p50_seconds', band: 'p50' },
  { name: '90 of 100', seconds: 'p90_seconds', band: 'p90' },
  { name: '99 of 100', seconds: 'p99_seconds', band: 'p99' },
] as const;

/** If the record ends before the band does, only the lower bound is known. */
function bandWords({ low_seconds, high_seconds }: BootPhase['bands']['p50']): string {
  if (low_seconds === null) return '–';
  return high_seconds === null
    ? `at least ${formatSeconds(low_seconds)}`
    : `${formatSeconds(low_seconds)} to ${formatSeconds(high_seconds)}`;
}

const Quantiles = ({ phase }: { phase: BootPhase }) => (
  <table className={`${styles.quantiles} tabular`} aria-label="How long boots take">
    <thead>
      <tr>
        <th scope="col">How many</th>
        <th scope="col">Within</th>
        <th scope="col">95 % sure</th>
      </tr>
    </thead>
    <tbody>
      {quantiles.map(({ name, seconds, band }) => {
        const value = phase[seconds];
        return (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>{value === null ? '–' : formatSeconds(value)}</td>
            <td>{bandWords(phase.bands[band])}</td>
          </tr>
        );
      })}
    </tbody>
  </table>
);
