/** Why a thing is in its status, since when, and what happens if nothing does: the answer to "is anyone on it?". */
import { IconGavel, IconHourglass, IconPlayerPause } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Allocation } from '../../../src/contract/allocation.ts';
import type { Evidence } from '../../../src/contract/evidence.ts';
import type { Node } from '../../../src/contract/node.ts';
import type { BudgetPhase, StatusDeclaration } from '../../../src/lifecycle/states.ts';
import { statusFactQuery } from '../api/timeline.ts';
import { roughly } from '../words/durations.ts';
import { Ago } from './Ago.tsx';
import styles from './Because.module.css';
import { Countdown } from './Countdown.tsx';

type Subject = Pick<Node, 'verdict' | 'deadline_at' | 'budget_seconds' | 'budget_source' | 'status_since'> &
  Partial<Pick<Node, 'held'>> &
  Partial<Pick<Allocation, 'reason' | 'owner_layer'>>;

interface Props {
  /** Whose status it is. */
  by: { node_id: string } | { allocation_id: string };
  status: string;
  subject: Subject;
  declared: StatusDeclaration;
  badge: ReactNode;
}

export function Because({ by, status, subject, declared, badge }: Props) {
  const { data: fact } = useQuery(statusFactQuery(by, status, subject.status_since));
  return (
    <div className={styles.because}>
      <div className={styles.cell}>
        <div className={styles.name}>Status</div>
        <div className={styles.status}>
          {badge}
          <span className={styles.dim}>
            for <Ago at={subject.status_since} asAge />
          </span>
        </div>
        <p className={styles.means}>{declared.means}</p>
      </div>
      <div className={styles.cell}>
        <div className={styles.name}>
          <IconGavel size={14} aria-hidden /> Because
        </div>
        <Reason subject={subject} fact={fact ?? null} />
        {subject.held && (
          <p className={styles.held}>
            <IconPlayerPause size={14} aria-hidden /> Held: {subject.held.reason}, until{' '}
            <Ago at={subject.held.held_until} />
          </p>
        )}
      </div>
      <div className={styles.cell}>
        <div className={styles.name}>
          <IconHourglass size={14} aria-hidden /> Next
        </div>
        <Next subject={subject} declared={declared} />
      </div>
    </div>
  );
}

/** A rule's verdict goes first; without one, the fact that brought it here says why. */
function Reason({ subject: { verdict, reason, owner_layer }, fact }: { subject: Subject; fact: Evidence | null }) {
  const words = [...new Set([verdict?.reason ?? textOf(fact?.data.reason), reason])].filter(Boolean);
  const rule = verdict?.rule ?? textOf(fact?.data.by);
  const at = verdict?.at ?? fact?.at;
  return (
    <>
      {words.map((line) => (
        <p key={line} className={styles.reason}>
          {line}
        </p>
      ))}
      <p className={styles.dim}>
        {rule && (
          <>
            {verdict ? 'rule' : 'by'} <code>{rule}</code>
          </>
        )}
        {at && (
          <>
            {rule && ', '}
            <Ago at={at} />
          </>
        )}
        {fact?.actor && ` · ${fact.actor.name}`}
        {owner_layer && ` · owner: ${owner_layer.replaceAll('_', ' ')}`}
      </p>
    </>
  );
}

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);

const nextWords: Record<StatusDeclaration['class'], string> = {
  moving: 'It leaves this status by itself.',
  serving: 'Supervised by its heartbeat; nothing is due.',
  parked: 'It is looked at again at least hourly; the actions above lead out.',
  terminal: 'Nothing follows.',
};

function Next({ subject, declared }: { subject: Subject; declared: StatusDeclaration }) {
  const { deadline_at, budget_seconds, budget_source } = subject;
  if (!deadline_at) return <p className={styles.means}>{nextWords[declared.class]}</p>;
  return (
    <>
      <p className={styles.deadline}>
        <Countdown at={deadline_at} budget_seconds={budget_seconds} />{' '}
        {declared.deadline && windowWords[declared.deadline]}
      </p>
      {budget_seconds !== null && (
        <p className={styles.dim}>
          budget {roughly(budget_seconds)}
          {budget_source && `, from ${sourceWords[budget_source]}`}
        </p>
      )}
    </>
  );
}

const windowWords: Record<BudgetPhase, string> = {
  queue: 'left to get a machine',
  provision: 'left to register',
  start: 'left to become ready',
  offline: 'left to come back',
  drain: 'left to become empty',
  release: 'left to be taken down',
  rescue: 'left to be rescued',
  clean: 'left to be cleaned',
};

const sourceWords: Record<NonNullable<Node['budget_source']>, string> = {
  allocation: 'the allocation',
  learned: 'recorded boots',
  pool: 'the pool',
  class: 'the runtime class',
  default: 'the default',
};
