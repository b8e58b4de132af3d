/**
 * Lets you try a budget: a line in the chart, what that budget would have done, and a button that
 * sets it. While the line moves, the result comes from the boots on the page. When the line stops,
 * the server computes the result over the whole record.
 */
import { Button, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useMemo, useState } from 'react';
import type { BootPhase, WhatIf } from '../../../../src/contract/supervision/boots.ts';
import {
  formatSeconds,
  headlineOf,
  predictedShare,
  undecidedSentence,
} from '../../../../src/lifecycle/boots/what-if-words.ts';
import { whatIfQuery } from '../../api/queries/boots.ts';
import { mayOperate, useSession } from '../../api/session.ts';
import columns from '../../ui/layout/Columns.module.css';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import { BootChart, BootLegend } from './BootChart.tsx';
import { FalseKillTable, StuckTable } from './BootJudgementTables.tsx';
import styles from './BudgetQuestion.module.css';
import { BudgetDialog } from './lazy-dialog.ts';
import { type Judgement, judge } from './what-if.ts';

interface Props {
  pool: string;
  phase: BootPhase;
  /** The budget in the URL. If it is undefined, the budget in force is shown. */
  initial: number | undefined;
  /** Called when the line has not moved for a while; undefined if it is on the budget in force. */
  onSettled: (seconds: number | undefined) => void;
  /** The budget in force, shown beside the chart. */
  children: ReactNode;
}

/** Ask the server when the line has not moved for this long. */
const settleMs = 300;

export function BudgetQuestion({ pool, phase, initial, onSettled, children }: Props) {
  const [triedBudget, setTriedBudget] = useState(initial);
  const [isApplying, setIsApplying] = useState(false);
  const budget_seconds = triedBudget ?? phase.budget_seconds;
  const [settledBudget] = useDebouncedValue(triedBudget, settleMs);
  useEffect(() => onSettled(settledBudget), [settledBudget, onSettled]);

  const serverResult = useQuery(whatIfQuery(pool, phase.phase, settledBudget ?? phase.budget_seconds));
  const answer = serverResult.data?.budget_seconds === budget_seconds ? serverResult.data : undefined;
  const localResult = useMemo(() => judge(phase, budget_seconds), [phase, budget_seconds]);
  const judged: Judgement = answer ?? localResult;
  const headline = headlineOf(judged);
  const setBudget = (seconds: number | undefined) =>
    setTriedBudget(seconds === phase.budget_seconds ? undefined : seconds);
  return (
    <>
      <div className={columns.columns}>
        <Panel title={`Boots of ${pool}`} aside={<span className={styles.count}>{countWords(phase)}</span>} flush>
          <Controls
            phase={phase}
            budget_seconds={budget_seconds}
            onBudget={setBudget}
            onApply={() => setIsApplying(true)}
          />
          <Numbers judged={judged} />
          <BootChart
            phase={phase}
            budget_seconds={budget_seconds}
            rescue_seconds={judged.rescue_seconds}
            effect={headline}
            onBudget={setBudget}
          />
          <div className={styles.says}>
            <Basis boots={localResult.boots} answer={answer} />
            <p className={styles.headline}>{headline}</p>
            <p className={styles.basis}>{undecidedSentence(judged)}</p>
          </div>
          <BootLegend />
        </Panel>
        {children}
      </div>
      {serverResult.error && <FailurePanel error={serverResult.error} />}
      <div className={styles.lists}>
        <Panel
          title="Given up although they arrived"
          aside={<span className={styles.count}>{judged.false_kill_count}</span>}
          flush
        >
          <FalseKillTable judged={judged} />
        </Panel>
        <Panel title="Stuck" aside={<span className={styles.count}>{judged.stuck_count}</span>} flush>
          <StuckTable judged={judged} />
        </Panel>
      </div>
      <BudgetDialog
        opened={isApplying}
        onClose={() => setIsApplying(false)}
        onDone={() => setTriedBudget(undefined)}
        pool={pool}
        phase={phase}
        judged={judged}
      />
    </>
  );
}

const countWords = ({ samples, running }: BootPhase) =>
  [samples.length === 1 ? '1 boot' : `the newest ${samples.length} boots`, running > 0 && `${running} running`]
    .filter(Boolean)
    .join(' · ');

interface ControlsProps {
  phase: BootPhase;
  budget_seconds: number;
  onBudget: (seconds: number | undefined) => void;
  onApply: () => void;
}

/** Every control keeps its position, so that nothing jumps while the line moves. */
function Controls({ phase, budget_seconds, onBudget, onApply }: ControlsProps) {
  const isMoved = budget_seconds !== phase.budget_seconds;
  const session = useSession();
  const [typed, setTyped] = useState<string | null>(null);
  // Keep the typed text (`40.`, or empty) until the line moves.
  const keepsTypedText = typed !== null && (Number(typed) === budget_seconds || !(Number(typed) > 0));
  const type = (text: string) => {
    setTyped(text);
    if (Number(text) > 0) onBudget(Number(text));
  };
  return (
    <div className={styles.controls}>
      <TextInput
        type="number"
        inputMode="decimal"
        min={0.1}
        step="any"
        aria-label="Budget in seconds"
        leftSection="Budget"
        leftSectionWidth="4.25rem"
        rightSection="s"
        w="10.5rem"
        value={keepsTypedText ? typed : String(budget_seconds)}
        onChange={(event) => type(event.currentTarget.value)}
        onBlur={() => setTyped(null)}
      />
      <span className={styles.hint}>or drag the line</span>
      <Button
        variant="default"
        className={styles.back}
        // Neither removed nor disabled, so that the button keeps the focus.
        data-disabled={!isMoved || undefined}
        aria-disabled={!isMoved}
        onClick={() => onBudget(undefined)}
      >
        Go back to {formatSeconds(phase.budget_seconds)}
      </Button>
      {mayOperate(session) && (
        <Button className={styles.apply} onClick={onApply}>
          {isMoved ? `Apply ${formatSeconds(budget_seconds)}` : 'Set budget'}
        </Button>
      )}
    </div>
  );
}

const detectionWords = (seconds: number | null): string => {
  if (seconds === null) return '–';
  if (Math.abs(seconds) < 0.05) return 'at the same time';
  return `${formatSeconds(Math.abs(seconds))} ${seconds > 0 ? 'sooner' : 'later'}`;
};

function Numbers({ judged }: { judged: Judgement }) {
  const { false_kill_count, rescued_count, boots, stuck_found_sooner_seconds } = judged;
  return (
    <dl className={`${styles.numbers} tabular`}>
      <Fact name="Wrongly given up" value={`${false_kill_count}`} of={`of ${boots}`} bad={false_kill_count > 0} />
      <Fact name="Rescued" value={`${rescued_count}`} of={`of ${false_kill_count}`} />
      <Fact name="Future boots over budget" value={predictedShare(judged) || '–'} />
      <Fact name="Stuck boots detected" value={detectionWords(stuck_found_sooner_seconds)} />
    </dl>
  );
}

const Fact = ({ name, value, of, bad }: { name: string; value: string; of?: string; bad?: boolean }) => (
  <div>
    <dt>{name}</dt>
    <dd data-bad={bad || undefined}>
      {value} {of && <small>{of}</small>}
    </dd>
  </div>
);

/** Names the boots that the result is based on. */
const Basis = ({ boots, answer }: { boots: number; answer: WhatIf | undefined }) => (
  <p className={styles.basis} role="status">
    {answer?.oldest_at ? (
      <>
        Based on {answer.boots === 1 ? 'the one boot' : `all ${answer.boots.toLocaleString('en')} boots`} on record, the
        oldest <Ago at={answer.oldest_at} />
      </>
    ) : (
      `Based on the newest ${boots.toLocaleString('en')} boots; loading the whole record …`
    )}
  </p>
);
