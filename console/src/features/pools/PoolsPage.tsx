/** Every pool: driver, budgets, policies and counts. */

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Pool } from '../../../../src/contract/pool.ts';
import { maskPool } from '../../../../src/contract/pool-fields/masked.ts';
import { reusesNodes } from '../../../../src/lifecycle/model/reuse.ts';
import { poolsQuery } from '../../api/queries/pools.ts';
import { IconStack2 } from '../../ui/icons.generated.ts';
import { Empty } from '../../ui/layout/Empty.tsx';
import { Facts } from '../../ui/layout/Facts.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import { TableSkeleton } from '../../ui/loading/Skeletons.tsx';
import { humanize } from '../../ui/text.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { formatRoughly } from '../../ui/time/durations.ts';
import styles from './PoolsPage.module.css';

export function PoolsPage() {
  const { data: pools, error } = useQuery(poolsQuery);
  return (
    <>
      <PageHeader
        title="Pools"
        tab="Pools"
        below={
          <span>
            A pool describes machines of one kind. Declare pools with <code>slipway apply -f pool.yaml</code>
          </span>
        }
      />
      {error && <FailurePanel error={error} />}
      {!pools && !error && (
        <Panel>
          <TableSkeleton />
        </Panel>
      )}
      {pools?.length === 0 && (
        <Panel>
          <Empty icon={IconStack2} title="No pools">
            <p>
              Declare a pool, then allocate machines from it:
              <code>slipway apply -f pool.yaml</code>
            </p>
          </Empty>
        </Panel>
      )}
      <div className={styles.pools}>
        {pools?.map((pool) => (
          <PoolCard key={pool.name} pool={pool} />
        ))}
      </div>
    </>
  );
}

const phases = ['queue', 'provision', 'start', 'offline', 'drain', 'release', 'rescue'] as const;

function PoolCard({ pool }: { pool: Pool }) {
  const budgets = pool.budgets ?? {};
  return (
    <Panel
      title={
        <Link to="/fleet" search={{ pool: pool.name }} className="quiet-link">
          {pool.name}
        </Link>
      }
      aside={
        <span className={styles.tags}>
          <Link to="/boots" search={{ pool: pool.name }}>
            Boots
          </Link>
          <span className={styles.tag}>{pool.driver}</span>
          {pool.mode === 'observe' && <span className={styles.tag}>observe only</span>}
          {pool.paused && <span className={styles.tag}>paused</span>}
        </span>
      }
    >
      <div className={styles.counts}>
        <Count value={pool.nodes.live} word="live" />
        <Count value={pool.nodes.free} word="free" />
        <Count value={pool.max_nodes ?? '∞'} word="limit" />
      </div>
      <Facts
        facts={[
          ['Runtime class', pool.runtime_class],
          ['Zone', pool.zone],
          ['After release', reusesNodes(pool) ? 'cleaned, checked and reused' : 'retired, with proof'],
          ['Attempts', pool.attempts],
          ['Heartbeat', pool.heartbeat?.interval_seconds && `every ${formatRoughly(pool.heartbeat.interval_seconds)}`],
          ...phases.map((phase): [string, string | undefined] => {
            const seconds = budgets[`${phase}_seconds`];
            return [`${humanize(phase)} budget`, seconds === undefined ? undefined : formatRoughly(seconds)];
          }),
          [
            'Budgets',
            Object.keys(budgets).length === 0 &&
              (pool.runtime_class ? "from the runtime class, or else the server's defaults" : "the server's defaults"),
          ],
          [
            'Budget policy',
            budgets.policy === 'learned' ? (
              <Link key="policy" to="/boots" search={{ pool: pool.name }}>
                learned from boots
              </Link>
            ) : (
              budgets.policy
            ),
          ],
          [
            'Prerequisites',
            pool.requires && pool.requires.length > 0 && pool.requires.map(({ name }) => name).join(', '),
          ],
          ['Generation', pool.generation],
          ['Changed', <Ago key="changed" at={pool.updated_at} />],
        ]}
      />
      {pool.spec && Object.keys(pool.spec).length > 0 && (
        <details className={styles.spec}>
          <summary>Spec</summary>
          {/* Masked for admins too, because other people may see the screen. */}
          <pre>{JSON.stringify(maskPool(pool).spec, null, 2)}</pre>
          <p>
            Values of variables, scripts and commands are masked. Admins read them with{' '}
            <code>slipway pools --json</code>.
          </p>
        </details>
      )}
    </Panel>
  );
}

const Count = ({ value, word }: { value: number | string; word: string }) => (
  <span className={styles.count}>
    <span className={`${styles.number} tabular`}>{value}</span>
    <span className={styles.word}>{word}</span>
  </span>
);
