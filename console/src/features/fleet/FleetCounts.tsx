/** Counts by pool for a fleet too large to draw, with links into each pool. */
import { Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { PoolCount } from '../../api/queries/fleet-size.ts';
import { StatusBar } from '../../ui/status/StatusBar.tsx';
import styles from './FleetGrid.module.css';
import { countWords } from './filter.ts';

interface Props {
  pools: PoolCount[];
  total: number;
}

export function FleetCounts({ pools, total }: Props) {
  return (
    <>
      <Text size="sm" c="dimmed" mb="sm">
        {total.toLocaleString()} machines are too many to draw. Open a pool to see its machines, or search.
      </Text>
      <div className={styles.groups}>
        {pools.map(({ pool, nodes, held, counts }) => (
          <section key={pool} className={styles.group} aria-label={`Pool ${pool}: ${countWords(counts)}`}>
            <div className={styles.head}>
              <h2 className={styles.name}>
                <Link to="/fleet" search={{ pool }}>
                  {pool}
                </Link>
              </h2>
              <span className={styles.about}>
                {[`${nodes.toLocaleString()} nodes`, countWords(counts), held > 0 && `${held} held`]
                  .filter(Boolean)
                  .join(' · ')}
              </span>
              <StatusBar counts={counts} total={nodes} />
            </div>
          </section>
        ))}
      </div>
    </>
  );
}
