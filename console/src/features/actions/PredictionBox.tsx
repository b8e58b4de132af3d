/** Shows the prediction of an action. Keeps its height while loading, so nothing jumps. */
import { Skeleton } from '@mantine/core';
import { IconArrowRight } from '@tabler/icons-react';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { AllocationStatusBadge, NodeStatusBadge } from '../../ui/status/StatusBadges.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import type { Prediction } from './action.ts';
import styles from './PredictionBox.module.css';

interface Props {
  prediction: Prediction | null;
  error: unknown;
}

export function PredictionBox({ prediction, error }: Props) {
  if (error) return <FailurePanel error={error} />;
  return (
    <section className={styles.box} aria-label="What will happen" aria-live="polite" aria-busy={!prediction}>
      <div className={styles.name}>What will happen</div>
      {prediction ? (
        <>
          {prediction.leads && <Leads leads={prediction.leads} />}
          <p>{prediction.says}</p>
          {prediction.deadline_at && (
            <p className={styles.dim}>
              Its deadline: <Ago at={prediction.deadline_at} />
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

function Leads({ leads }: { leads: NonNullable<Prediction['leads']> }) {
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
