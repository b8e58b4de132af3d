/**
 * Draws every node as a cell, in groups. One real link per group covers the cell under the pointer
 * or the focus.
 */
import { useMemo, useState } from 'react';
import type { Pool } from '../../../../src/contract/pool.ts';
import { StatusBar } from '../../ui/status/StatusBar.tsx';
import { FleetCells, type PreviewTarget } from './FleetCells.tsx';
import styles from './FleetGrid.module.css';
import { countWords, type GroupBy } from './filter.ts';
import type { CellGroup, FleetView } from './fleet-view.ts';
import { NodePreview } from './NodePreview.tsx';

interface Props {
  view: FleetView;
  groupBy: GroupBy;
  pools: Pool[] | undefined;
  /** Nodes with a failed release, and why. */
  stuck: ReadonlyMap<string, string>;
}

export function FleetGrid({ view, groupBy, pools, stuck }: Props) {
  const [target, setTarget] = useState<PreviewTarget | null>(null);
  const node = target?.group.nodes[target.at];
  return (
    <div className={styles.groups}>
      {view.groups.map((group) => (
        <Group
          key={group.name}
          group={group}
          groupBy={groupBy}
          pool={groupBy === 'pool' ? pools?.find(({ name }) => name === group.name) : undefined}
          stuck={stuck}
          onPreview={setTarget}
        />
      ))}
      {node && target && <NodePreview node={node} at={target.box} stuck={stuck.get(node.node_id)} />}
    </div>
  );
}

interface GroupProps {
  group: CellGroup;
  groupBy: GroupBy;
  pool: Pool | undefined;
  stuck: ReadonlyMap<string, string>;
  onPreview: (target: PreviewTarget | null) => void;
}

const groupWords: Record<GroupBy, string> = { pool: 'Pool', zone: 'Zone' };

function Group({ group, groupBy, pool, stuck, onPreview }: GroupProps) {
  const stuckCount = useMemo(
    () => (stuck.size === 0 ? 0 : group.nodes.filter(({ node_id }) => stuck.has(node_id)).length),
    [group, stuck],
  );
  return (
    <section className={styles.group} aria-label={`${groupWords[groupBy]} ${group.name}: ${countWords(group.counts)}`}>
      <div className={styles.head}>
        <h2 className={styles.name}>{group.name}</h2>
        <span className={styles.about}>
          {[
            pool?.driver,
            `${group.size.toLocaleString()} ${group.size === 1 ? 'node' : 'nodes'}`,
            pool && `${pool.nodes.free} free`,
            pool?.max_nodes && `at most ${pool.max_nodes}`,
            pool?.mode === 'observe' && 'observe only',
            pool?.paused && 'paused',
          ]
            .filter(Boolean)
            .join(' · ')}
        </span>
        {stuckCount > 0 && (
          <span className={styles.stuck}>
            {stuckCount === 1 ? '1 release failed' : `${stuckCount} releases failed`}
          </span>
        )}
        <StatusBar counts={group.counts} total={group.size} />
      </div>
      <FleetCells group={group} stuck={stuck} onPreview={onPreview} />
    </section>
  );
}
