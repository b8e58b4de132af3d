/** Shows the prediction of an action. Keeps its height while loading, so nothing jumps. */
import { Skeleton } from '@mantine/core';
import { IconArrowRight } from '../../ui/icons.generated.ts';
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
          {prediction.transition && <Transition transition={prediction.transition} />}
          <p>{prediction.text}</p>
          {prediction.deadline_at && (
            <p className={styles.dim}>
              Deadline: <Ago at={prediction.deadline_at} />
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

function Transition({ transition }: { transition: NonNullable<Prediction['transition']> }) {
  const isUnchanged = transition.from === transition.to;
  return (
    <div className={styles.leads}>
      {transition.subject === 'node' ? (
        <NodeStatusBadge status={transition.from} />
      ) : (
        <AllocationStatusBadge status={transition.from} />
      )}
      {isUnchanged ? (
        <span className={styles.dim}>the status does not change</span>
      ) : (
        <>
          <IconArrowRight size={15} aria-label="becomes" />
          {transition.subject === 'node' ? (
            <NodeStatusBadge status={transition.to} />
          ) : (
            <AllocationStatusBadge status={transition.to} />
          )}
        </>
      )}
    </div>
  );
}
