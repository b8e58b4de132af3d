/** Evidence of every layer, newest first; new facts arrive on top. */
import { Button, Skeleton } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { filters } from '../../api/cache/keys.ts';
import { timelineQuery } from '../../api/queries/timeline.ts';
import { IconTimeline } from '../../ui/icons.generated.ts';
import { Empty } from '../../ui/layout/Empty.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PillFilter } from '../../ui/table/PillFilter.tsx';
import { layerLooks, layerNames } from './layer-looks.ts';
import styles from './Timeline.module.css';
import { TimelineRow } from './TimelineRow.tsx';
import { newestFirst } from './timeline-order.ts';

interface Props {
  /** The thing whose evidence is shown. */
  subject: { node_id: string } | { allocation_id: string } | { workflow_id: string } | { correlation_id: string };
  layer: string | undefined;
  onLayer: (layer: string | undefined) => void;
}

export function Timeline({ subject, layer, onLayer }: Props) {
  const { data, error, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    timelineQuery(filters({ ...subject, layer })),
  );
  const facts = data && newestFirst(data.pages.flatMap((page) => page.items));
  return (
    <div>
      <div className={styles.layers}>
        <PillFilter
          label="Layers"
          looks={layerLooks}
          always={layerNames}
          chosen={new Set(layerNames.filter((name) => name === layer))}
          onChange={(chosen) => onLayer([...chosen].at(-1))}
        />
      </div>
      {error && <FailurePanel error={error} />}
      {!facts && !error && <LoadingRows />}
      {facts?.length === 0 && hasNextPage && <p>None of the newest evidence is visible to you. Show older evidence.</p>}
      {facts?.length === 0 && !hasNextPage && (
        <Empty icon={IconTimeline} title={layer ? `No evidence from the ${layer} layer` : 'No evidence yet'}>
          <p>New evidence appears here at once, and stays after the machine is gone.</p>
        </Empty>
      )}
      {facts && facts.length > 0 && <LaneHeads />}
      {facts && facts.length > 0 && (
        <ol className={styles.facts}>
          {facts.map((fact) => (
            <TimelineRow key={fact.cursor} fact={fact} />
          ))}
        </ol>
      )}
      {hasNextPage && (
        <div className={styles.more}>
          <Button variant="default" size="xs" loading={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Show older evidence
          </Button>
        </div>
      )}
    </div>
  );
}

/** One column per layer; the pills above name the icons. */
const LaneHeads = () => (
  <div className={styles.heads} aria-hidden>
    <span>time</span>
    <span className={styles.lanes}>
      {layerNames.map((name) => {
        const { icon: Icon, means } = layerLooks[name];
        return (
          <span key={name} className={styles.lane} title={`${name}: ${means}`}>
            <Icon size={14} />
          </span>
        );
      })}
    </span>
    <span>what</span>
  </div>
);

const placeholders = ['a', 'b', 'c', 'd', 'e', 'f'];

const LoadingRows = () => (
  <div className={styles.loading} role="status" aria-label="Loading the timeline">
    {placeholders.map((name) => (
      <Skeleton key={name} height={18} radius="sm" />
    ))}
  </div>
);
