/** Why a thing is in its status, since when, and what happens if nothing does: the answer to "is anyone on it?". */
import { IconGavel, IconHourglass, IconPlayerPause } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import type { Allocation } from '../../../src/contract/allocation.ts';
import type { Node, Verdict } from '../../../src/contract/node.ts';
import type { StatusDeclaration } from '../../../src/lifecycle/states.ts';
import { roughly } from '../words/durations.ts';
import { Ago } from './Ago.tsx';
import styles from './Because.module.css';
import { Countdown } from './Countdown.tsx';

type Subject = Pick<Node, 'verdict' | 'deadline_at' | 'budget_seconds' | 'budget_source' | 'status_since'> &
  Partial<Pick<Node, 'held'>> &
  Partial<Pick<Allocation, 'reason' | 'owner_layer'>>;

interface Props {
  subject: Subject;
  declared: StatusDeclaration;
  badge: ReactNode;
}

export function Because({ subject, declared, badge }: Props) {
  return (
    <div className={styles.because}>
      <div className={styles.cell}>
        <div className={styles.name}>Status</div>
        <div className={styles.status}>
          {badge}
          <span className={styles.dim}>
            since <Ago at={subject.status_since} />
          </span>
        </div>
        <p className={styles.means}>{declared.means}</p>
      </div>
      <div className={styles.cell}>
        <div className={styles.name}>
          <IconGavel size={14} aria-hidden /> Because
        </div>
        <Reason verdict={subject.verdict} reason={subject.reason ?? null} owner={subject.owner_layer ?? null} />
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

function Reason({ verdict, reason, owner }: { verdict: Verdict | null; reason: string | null; owner: string | null }) {
  if (!verdict && !reason) return <p className={styles.dim}>It went its normal way; no rule had to decide.</p>;
  return (
    <>
      {(verdict?.reason ?? reason) && <p className={styles.reason}>{verdict?.reason ?? reason}</p>}
      {verdict && reason && reason !== verdict.reason && <p className={styles.reason}>{reason}</p>}
      <p className={styles.dim}>
        {verdict && (
          <>
            rule <code>{verdict.rule}</code>, <Ago at={verdict.at} />
          </>
        )}
        {verdict && owner && ' · '}
        {owner && <>owner: {owner.replaceAll('_', ' ')}</>}
      </p>
    </>
  );
}

const nextWords: Record<StatusDeclaration['class'], string> = {
  moving: 'It leaves this status by itself.',
  serving: 'Supervised by its heartbeat; nothing is due.',
  parked: 'It stays here until a person acts; it is checked again at least hourly.',
  terminal: 'Nothing follows.',
};

function Next({ subject, declared }: { subject: Subject; declared: StatusDeclaration }) {
  const { deadline_at, budget_seconds, budget_source } = subject;
  if (!deadline_at) return <p className={styles.means}>{nextWords[declared.class]}</p>;
  return (
    <>
      <p className={styles.deadline}>
        <Countdown at={deadline_at} budget_seconds={budget_seconds} /> to the {declared.deadline ?? ''} deadline
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

const sourceWords: Record<NonNullable<Node['budget_source']>, string> = {
  allocation: 'the allocation',
  learned: 'recorded boots',
  pool: 'the pool',
  class: 'the runtime class',
  default: 'the default',
};
