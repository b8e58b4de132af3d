/** Explains the status of an allocation: since when, why, and what happens next. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Allocation } from '../../../../src/contract/allocation.ts';
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import { describeAllocationStatus, hasEnded, isRescueOver } from '../../../../src/lifecycle/deadlines/rescue-window.ts';
import {
  allocationStatuses,
  type BudgetPhase,
  type StatusDeclaration,
} from '../../../../src/lifecycle/model/states.ts';
import { statusFactQuery } from '../../api/queries/timeline.ts';
import { useTicking } from '../../api/server-clock.ts';
import { type MachineTrouble, reasonOf, troubleOf, troubleWords } from '../../ui/status/machine-trouble.ts';
import { AllocationStatusBadge } from '../../ui/status/StatusBadges.tsx';
import styles from '../../ui/status/StatusPanel.module.css';
import { BudgetLine, StatusPanel } from '../../ui/status/StatusPanel.tsx';
import { ownerWords } from '../../ui/text.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { Countdown } from '../../ui/time/Countdown.tsx';
import { useMachineTrouble } from './use-machine-trouble.ts';

export function AllocationStatusPanel({ allocation }: { allocation: Allocation }) {
  const { allocation_id, status, status_since } = allocation;
  const trouble = troubleOf(allocation, useMachineTrouble());
  const means = useTicking((nowMs) => describeAllocationStatus(allocation, nowMs));
  const { data: fact } = useQuery(statusFactQuery(allocation_id, status, status_since));
  return (
    <StatusPanel
      badge={<AllocationStatusBadge status={status} trouble={trouble} large />}
      since={trouble?.since ?? status_since}
      means={trouble ? troubleWords[trouble.status].sentence : means}
      because={<Reason allocation={allocation} fact={fact ?? null} trouble={trouble} />}
      next={<Next allocation={allocation} trouble={trouble} />}
    />
  );
}

/** Shows the verdict of a rule, or else the fact that changed the status. */
function Reason({
  allocation,
  fact,
  trouble,
}: {
  allocation: Allocation;
  fact: Evidence | null;
  trouble: MachineTrouble | null;
}) {
  const { verdict, owner_layer } = allocation;
  const reason = reasonOf(allocation, trouble);
  const ruleReason = trouble ? null : (verdict?.reason ?? textOf(fact?.data.reason));
  const words = [...new Set([ruleReason, reason])].filter(Boolean);
  // The fact is about the active status, which does not explain a machine in trouble.
  const statusFact = trouble ? null : fact;
  const rule = verdict?.rule ?? textOf(statusFact?.data.by);
  const at = verdict?.at ?? statusFact?.at;
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
        {statusFact?.actor && ` · ${statusFact.actor.name}`}
        {owner_layer && ` · ${ownerWords(owner_layer)}`}
      </p>
    </>
  );
}

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);

const nextWords: Record<StatusDeclaration['class'], string> = {
  moving: 'This status ends by itself.',
  serving: 'The machine is supervised by its heartbeat. You need not do anything.',
  parked: 'The allocation is checked at least hourly. Use an action above to end this status.',
  terminal: 'This status is final.',
};

function Next({ allocation, trouble }: { allocation: Allocation; trouble: MachineTrouble | null }) {
  const { deadline_at, budget_seconds, retry_at, release_tries } = allocation;
  const declared = allocationStatuses[allocation.status];
  const rescueOver = useTicking((nowMs) => isRescueOver(allocation, nowMs));
  if (retry_at) {
    return (
      <>
        <p className={styles.deadline}>
          Next try <Ago at={retry_at} asDue />
        </p>
        <p className={styles.dim}>
          {release_tries === 1 ? '1 try' : `${release_tries} tries`} so far. Use an action above to retry at once, or to
          end the release.
        </p>
      </>
    );
  }
  if (trouble && allocation.node_id)
    return (
      <p className={styles.means}>
        What happens next depends on{' '}
        <Link to="/nodes/$id" params={{ id: allocation.node_id }}>
          its machine
        </Link>
        .
      </p>
    );
  if (rescueOver) return <p className={styles.means}>The deadline has passed. Use an action above.</p>;
  if (!deadline_at) return <p className={styles.means}>{nextWords[declared.class]}</p>;
  return (
    <>
      <p className={styles.deadline}>
        <Countdown at={deadline_at} budget_seconds={budget_seconds} />{' '}
        {hasEnded(allocation) ? 'until the machine is taken down' : declared.deadline && windowWords[declared.deadline]}
      </p>
      <BudgetLine {...allocation} />
    </>
  );
}

const windowWords: Record<BudgetPhase, string> = {
  queue: 'left to get a machine',
  provision: 'left to come up',
  start: 'left to become ready',
  offline: 'left to return',
  drain: 'left to become empty',
  release: 'left to be taken down',
  rescue: 'left to be rescued',
  clean: 'left to be cleaned',
};
