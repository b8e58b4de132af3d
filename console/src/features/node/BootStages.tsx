/** Draws the stages of a boot on one time scale. */
import { Skeleton } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { bootQuery } from '../../api/queries/nodes.ts';
import { IconRocket } from '../../ui/icons.generated.ts';
import { Empty } from '../../ui/layout/Empty.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { formatPrecise } from '../../ui/time/durations.ts';
import styles from './BootStages.module.css';
import { placeStages } from './boot-stages.ts';

export function BootStages({ node_id, instance }: { node_id: string; instance: string | null }) {
  const { data, error } = useQuery(bootQuery(node_id, instance));
  if (error) return <FailurePanel error={error} />;
  if (!data) return <Skeleton height={96} radius="md" />;
  if (data.stages.length === 0) {
    return (
      <Empty icon={IconRocket} title="No boot stages reported">
        <p>Agents report the stages of a boot. The agent on this machine has reported none.</p>
      </Empty>
    );
  }
  const { bars, total_seconds } = placeStages(data.stages);
  return (
    <div className={styles.boot}>
      {bars.map((bar) => (
        <div key={`${bar.parent}/${bar.name}`} className={styles.stage}>
          <span className={styles.name} style={{ paddingLeft: `${bar.depth}rem` }}>
            {bar.name}
          </span>
          <span className={styles.track}>
            <span
              className={styles.bar}
              data-slow={(bar.usual_seconds !== null && bar.seconds > 1.5 * bar.usual_seconds) || undefined}
              data-nested={bar.depth > 0 || undefined}
              style={{ left: `${bar.from_percent}%`, width: `${bar.width_percent}%` }}
            />
            {bar.usual_percent !== null && (
              <span
                className={styles.usual}
                title={`usually ${formatPrecise(bar.usual_seconds ?? 0)}`}
                style={{ left: `${bar.from_percent}%`, width: `${bar.usual_percent}%` }}
              />
            )}
          </span>
          <span className={`${styles.seconds} tabular`}>
            {formatPrecise(bar.seconds)}
            {bar.usual_seconds !== null && <small>usually {formatPrecise(bar.usual_seconds)}</small>}
          </span>
        </div>
      ))}
      {bars.some(({ usual_seconds }) => usual_seconds !== null) && (
        <p className={styles.legend}>
          <span className={styles.mark} aria-hidden /> where the stage usually ends: the median of the pool’s last boots
        </p>
      )}
      <div className={styles.total}>
        <span>Total</span>
        <span className="tabular">{formatPrecise(total_seconds)}</span>
      </div>
    </div>
  );
}
