/** Explains the status of a machine and what happens next, with a button for a helpful action. */

import { Button } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { Fragment } from 'react';
import type { Node } from '../../../../src/contract/node.ts';
import type { Explanation } from '../../../../src/contract/supervision/explanation.ts';
import { useTicking } from '../../api/server-clock.ts';
import { AllocationStatusBadge, NodeStatusBadge } from '../../ui/status/StatusBadges.tsx';
import styles from '../../ui/status/StatusPanel.module.css';
import { BudgetLine, StatusPanel } from '../../ui/status/StatusPanel.tsx';
import { ownerWords, toSentence } from '../../ui/text.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { Countdown } from '../../ui/time/Countdown.tsx';
import { withLocalTimes } from '../../ui/time/times.ts';
import type { Action } from '../actions/action.ts';
import { actionLabel } from '../actions/words.ts';
import { useFailingSince } from '../allocation/trouble-facts.tsx';
import { OriginLabel } from '../evidence/OriginLabel.tsx';
import { DoubtNotice } from './DoubtNotice.tsx';
import { isAhead, isInDoubt, openOffer, selectEvidence, stuckRelease, waitingWords } from './explanation.ts';
import { nodeAction } from './node-actions.ts';

interface Props {
  node: Node;
  explanation: Explanation;
  /** Undefined for viewers. */
  onAction: ((action: Action) => void) | undefined;
}

export function NodeStatusPanel({ node, explanation, onAction }: Props) {
  const stuck = stuckRelease(explanation);
  const failingSince = useFailingSince(stuck);
  const inDoubt = isInDoubt(explanation);
  return (
    <StatusPanel
      notice={inDoubt && <DoubtNotice node={node} explanation={explanation} onAction={onAction} />}
      badge={
        stuck ? (
          <AllocationStatusBadge status={stuck.status} large />
        ) : (
          <NodeStatusBadge status={explanation.status} large />
        )
      }
      since={failingSince ?? explanation.status_since}
      means={
        <>
          {stuck && (
            <p>
              The machine is still <NodeStatusBadge status={explanation.status} />. Cleaning continues when the release
              is retried.
            </p>
          )}
          {!stuck && !inDoubt && <p>{explanation.means}</p>}
          {node.last_seen_at && (
            <p>
              Last seen: <Ago at={node.last_seen_at} />
            </p>
          )}
        </>
      }
      because={<Reason explanation={explanation} />}
      next={<Next node={node} explanation={explanation} onAction={onAction} />}
    />
  );
}

function Reason({ explanation }: { explanation: Explanation }) {
  const { rule, verdict, owner, at } = explanation.because;
  const stuck = stuckRelease(explanation);
  return (
    <>
      {stuck && <p className={styles.reason}>{toSentence(withLocalTimes(stuck.reason ?? 'the release failed'))}</p>}
      {verdict && <p className={stuck ? styles.dim : styles.reason}>{withLocalTimes(verdict)}</p>}
      <p className={styles.dim}>
        {rule && rule !== explanation.status && (
          <>
            by <code>{rule}</code>,{' '}
          </>
        )}
        <Ago at={at} />
        {owner && `, ${ownerWords(owner)}`}
      </p>
      <ul className={styles.findings}>
        {explanation.slow_stages.map(({ name, says }) => (
          <li key={name}>{says}</li>
        ))}
        {selectEvidence(explanation).map((fact) => (
          <li key={fact.cursor}>
            <OriginLabel fact={fact} />
            {withLocalTimes(fact.summary)}, <Ago at={fact.at} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Next({ node, explanation, onAction }: Props) {
  const { next, held, residue } = explanation;
  const waiting = waitingWords(explanation, node);
  // More time helps a machine that may still come up. After a certain failure, only a retry helps.
  const helpfulOffer = openOffer(explanation, node.verdict?.certain ? 'retry' : 'extend-deadline');
  return (
    <>
      {waiting && !held && <p className={styles.waits}>{waiting}</p>}
      {residue.length > 0 && (
        <p className={styles.dim}>
          Open residue: <ResidueLinks ids={residue} />
        </p>
      )}
      <ul className={styles.steps}>
        {next.map((step) => (
          <Step key={step.if} step={step} explanation={explanation} />
        ))}
      </ul>
      {next.length === 0 && !waiting && <p className={styles.dim}>This status is final.</p>}
      <BudgetLine {...explanation} />
      {onAction && helpfulOffer && (
        <Button
          className={styles.extend}
          size="compact-sm"
          variant="default"
          onClick={() => onAction(nodeAction(node, helpfulOffer))}
        >
          {actionLabel(helpfulOffer.action)}
        </Button>
      )}
    </>
  );
}

const ResidueLinks = ({ ids }: { ids: readonly string[] }) =>
  ids.map((id, at) => (
    <Fragment key={id}>
      {at > 0 && ', '}
      <Link to="/residue">{id}</Link>
    </Fragment>
  ));

interface StepProps {
  step: Explanation['next'][number];
  explanation: Explanation;
}

function Step({ step: { at, if: condition, then: result }, explanation }: StepProps) {
  const ahead = useTicking((nowMs) => isAhead(at, explanation, nowMs));
  if (!ahead) return null;
  return (
    <li>
      {at === null ? 'any time' : <When at={at} explanation={explanation} />} if {condition} <b>→ {result}</b>
    </li>
  );
}

/** Only a deadline gets a countdown; other moments, such as the next heartbeat, are always near. */
function When({ at, explanation: { deadline_at, budget_seconds } }: { at: string; explanation: Explanation }) {
  const isDue = useTicking((nowMs) => Date.parse(at) <= nowMs);
  if (isDue)
    return (
      <>
        due <Ago at={at} />,
      </>
    );
  if (at !== deadline_at) return <Ago at={at} />;
  return (
    <>
      in <Countdown at={at} budget_seconds={budget_seconds} />
    </>
  );
}
