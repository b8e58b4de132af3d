/** The empty state of Attention: nothing needs a person. Shows what was checked. */

import { useQuery } from '@tanstack/react-query';
import { overviewQuery } from '../../api/queries/pools.ts';
import { seesWholeFleet, useSession } from '../../api/session.ts';
import { IconCircleCheck } from '../../ui/icons.generated.ts';
import { Empty } from '../../ui/layout/Empty.tsx';
import styles from './Attention.module.css';
import type { Known } from './concerns.ts';

const total = (counts: Record<string, number>, excludedStatus: string): number =>
  Object.entries(counts).reduce((sum, [status, count]) => (status === excludedStatus ? sum : sum + count), 0);

const describeCount = (count: number, one: string, many: string) => ({ count, words: count === 1 ? one : many });

export function NothingOpen({ known }: { known: Known }) {
  const { data: overview } = useQuery({ ...overviewQuery, enabled: seesWholeFleet(useSession()) });
  const checks = overview && [
    describeCount(
      total(overview.nodes, 'retired'),
      'machine, none silent, failed or quarantined',
      'machines, none silent, failed or quarantined',
    ),
    describeCount(total(overview.allocations, 'released'), 'allocation, none failed', 'allocations, none failed'),
    describeCount(
      known.sweeps?.length ?? 0,
      'sweep runs, no verdict is held back',
      'sweeps run, no verdict is held back',
    ),
    describeCount(overview.pools, 'pool, nothing left behind, no drift', 'pools, nothing left behind, no drift'),
  ];
  return (
    <Empty icon={IconCircleCheck} title="All is well" tone="ok">
      <p>Nothing needs you. Problems appear here by themselves, worst first.</p>
      {checks && (
        <ul className={styles.checks} aria-label="What was checked">
          {checks.map(({ count, words }) => (
            <li key={words}>
              <b className="tabular">{count}</b> {words}
            </li>
          ))}
        </ul>
      )}
    </Empty>
  );
}
