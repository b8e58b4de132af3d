/** Lists findings with both sides and the buttons to decide on them. */

import { Button, Group } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { Finding } from '../../../../src/contract/supervision/finding.ts';
import { shortId } from '../../ui/layout/CopyId.tsx';
import { Facts } from '../../ui/layout/Facts.tsx';
import { StatusBadge } from '../../ui/status/StatusBadge.tsx';
import { findingLooks, lookOf } from '../../ui/status/status-looks.ts';
import { ownerWords, toSentence } from '../../ui/text.ts';
import { toneStyle } from '../../ui/theme.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import type { Action } from '../actions/action.ts';
import { BootsLink } from '../boots/BootsLink.tsx';
import styles from './FindingList.module.css';
import { decisionAction, decisionLabels, decisionsOn } from './finding-actions.ts';
import { titleAndDetail } from './finding-title.ts';
import { aboutWords, findingSince, sideFacts, sideNames } from './words.ts';

interface Props {
  findings: Finding[];
  /** Undefined for viewers. */
  onAction: ((action: Action) => void) | undefined;
  /** On the page of a machine: hides the link to that machine. */
  hideSubject?: boolean;
}

export const FindingList = ({ findings, onAction, hideSubject }: Props) => (
  <ul className={styles.list}>
    {findings.map((finding) => (
      <li
        key={finding.finding_id}
        className={styles.finding}
        style={toneStyle(lookOf(findingLooks, finding.status).tone)}
      >
        <div className={styles.head}>
          <div className={styles.words}>
            <Title finding={finding} />
            <p className={styles.dim}>
              <StatusBadge look={lookOf(findingLooks, finding.status)} status={finding.status} />
              <span>{finding.kind.replaceAll('-', ' ')}</span>
              <span>{ownerWords(finding.owner_layer)}</span>
              {(!hideSubject || finding.kind === 'boot-shift') && <About finding={finding} />}
              <span>
                since <Ago at={findingSince(finding)} />
              </span>
              <span>
                last seen <Ago at={finding.seen_at} />
              </span>
            </p>
          </div>
          {onAction && <Decisions finding={finding} onAction={onAction} />}
        </div>
        <div className={styles.sides}>
          <Side heading={sideNames[finding.kind][0]} side={finding.ours} />
          <Side heading={sideNames[finding.kind][1]} side={finding.theirs} />
        </div>
        {!finding.closed_at && (
          <p className={styles.dim}>
            <span>{finding.ways_out.join(' ')}</span>
          </p>
        )}
        {finding.closed_at && <End finding={finding} />}
      </li>
    ))}
  </ul>
);

function Title({ finding }: { finding: Finding }) {
  const { title, detail } = titleAndDetail(finding);
  return (
    <>
      <h3 className={styles.title}>{toSentence(title)}</h3>
      {detail && <p className={styles.others}>{toSentence(detail)}</p>}
    </>
  );
}

function About({ finding }: { finding: Finding }) {
  const { kind, node_id, allocation_id, pool } = finding;
  if (kind === 'boot-shift') return <BootsLink finding={finding}>{aboutWords(finding)}</BootsLink>;
  if (node_id)
    return (
      <Link to="/nodes/$id" params={{ id: node_id }} title={node_id}>
        node <code>{shortId(node_id)}</code> of {pool}
      </Link>
    );
  if (allocation_id)
    return (
      <Link to="/allocations/$id" params={{ id: allocation_id }} title={allocation_id}>
        allocation <code>{shortId(allocation_id)}</code> in {pool}
      </Link>
    );
  if (pool === null || kind === 'token') return <Link to="/settings">{aboutWords(finding)}</Link>;
  return (
    <Link to="/fleet" search={{ pool }}>
      {aboutWords(finding)}
    </Link>
  );
}

const Side = ({ heading, side }: { heading: string; side: Finding['ours'] }) => (
  <div className={styles.side}>
    <h4 className={styles.heading}>{heading}</h4>
    <Facts
      facts={sideFacts(side).map(([name, words]) => [
        name,
        typeof words === 'string' ? words : <Folded key={name} words={words} />,
      ])}
    />
  </div>
);

/** Shows the newest entry; the others unfold. */
const Folded = ({ words: [first, ...others] }: { words: string[] }) => (
  <>
    {first}
    {others.length > 0 && (
      <details>
        <summary>{others.length} more</summary>
        {others.map((each) => (
          <p key={each}>{each}</p>
        ))}
      </details>
    )}
  </>
);

const End = ({ finding: { status, closed_at, actor, reason } }: { finding: Finding }) => (
  <p className={styles.dim}>
    {status} {closed_at && <Ago at={closed_at} />}
    {actor && ` by ${actor.name}`}
    {reason && `: ${reason}`}
  </p>
);

function Decisions({ finding, onAction }: { finding: Finding; onAction: (action: Action) => void }) {
  return (
    <Group gap="xs">
      {decisionsOn(finding).map((decision) => (
        <Button
          key={decision}
          size="compact-md"
          variant={decision === 'repair' ? 'light' : 'default'}
          color={decision === 'repair' ? 'red' : undefined}
          aria-label={`${decisionLabels[decision]} ${aboutWords(finding)}`}
          onClick={() => onAction(decisionAction(finding, decision))}
        >
          {decisionLabels[decision]}
        </Button>
      ))}
    </Group>
  );
}
