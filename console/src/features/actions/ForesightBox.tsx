/** Shows the prediction of an action. Keeps its height while loading, so nothing jumps. */
import { Skeleton } from '@mantine/core';
import { IconArrowRight } from '@tabler/icons-react';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { AllocationStatusBadge, NodeStatusBadge } from '../../ui/status/StatusBadges.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import type { Foresight } from './action.ts';
import styles from './ForesightBox.module.css';

interface Props {
  foresight: Foresight | null;
  error: unknown;
}

export function ForesightBox({ foresight, error }: Props) {
  if (error) return <FailurePanel error={error} />;
  return (
    <section className={styles.box} aria-label="What will happen" aria-live="polite" aria-busy={!foresight}>
      <div className={styles.name}>What will happen</div>
      {foresight ? (
        <>
          {foresight.leads && <Leads leads={foresight.leads} />}
          <p>{foresight.says}</p>
          {foresight.deadline_at && (
            <p className={styles.dim}>
              Its deadline: <Ago at={foresight.deadline_at} />
            </p>
          )}
        </>
      ) : (
        <>
          <Skeleton height={22} width="14rem" mt={8} radius="sm" />
          <Skeleton height={14} mt={10} radius="sm" />
        </>
      )}
    </section>
  );
}

function Leads({ leads }: { leads: NonNullable<Foresight['leads']> }) {
  const stays = leads.from === leads.to;
  return (
    <div className={styles.leads}>
      {leads.of === 'node' ? <NodeStatusBadge status={leads.from} /> : <AllocationStatusBadge status={leads.from} />}
      {stays ? (
        <span className={styles.dim}>stays as it is</span>
      ) : (
        <>
          <IconArrowRight size={15} aria-label="becomes" />
          {leads.of === 'node' ? <NodeStatusBadge status={leads.to} /> : <AllocationStatusBadge status={leads.to} />}
        </>
      )}
    </div>
  );
}
