/** How long the boots of a pool take, from what is on record, and where a budget would stand among them. */
import { Button, SegmentedControl, Select, Text } from '@mantine/core';
import { IconRocket } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useMemo } from 'react';
import type { BootPhase } from '../../../src/contract/boots.ts';
import { poolBootsQuery } from '../api/boots.ts';
import { poolsQuery } from '../api/pools.ts';
import styles from '../components/BootChart.module.css';
import { BootChart } from '../components/BootChart.tsx';
import { BootSampleTable } from '../components/BootSampleTable.tsx';
import columns from '../components/Columns.module.css';
import { Empty } from '../components/Empty.tsx';
import { FailurePanel } from '../components/FailurePanel.tsx';
import { PageHeader } from '../components/PageHeader.tsx';
import { Panel } from '../components/Panel.tsx';
import { TableSkeleton } from '../components/Skeletons.tsx';
import toolbar from '../components/Toolbar.module.css';
import { against, type Outcome } from '../words/boots.ts';
import { precise } from '../words/durations.ts';

const route = getRouteApi('/frame/boots');

const phaseNames = [
  { value: 'provision', label: 'Until it registers' },
  { value: 'start', label: 'Until it is ready' },
];

export function BootsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (known) => ({ ...known, ...next }), replace: true, resetScroll: false });
  const pools = useQuery(poolsQuery);
  const pool = search.pool ?? pools.data?.[0]?.name;
  const boots = useQuery({ ...poolBootsQuery(pool ?? ''), enabled: pool !== undefined });
  const phase = boots.data?.phases.find((each) => each.phase === (search.phase ?? 'provision'));
  const asked = Number(search.budget);
  const budget_seconds = asked > 0 ? asked : (phase?.budget_seconds ?? 0);
  return (
    <>
      <PageHeader
        title="Boots"
        tab="Boots"
        below={<span>How long boots take, and where the budget stands among them</span>}
      />
      <div className={toolbar.toolbar}>
        <Select
          aria-label="Pool"
          data={pools.data?.map(({ name }) => name) ?? []}
          value={pool ?? null}
          onChange={(value) => change({ pool: value ?? undefined, budget: undefined })}
          allowDeselect={false}
          w={220}
        />
        <SegmentedControl
          aria-label="Phase"
          data={phaseNames}
          value={search.phase ?? 'provision'}
          onChange={(value) => change({ phase: value === 'provision' ? undefined : value, budget: undefined })}
        />
        {phase && budget_seconds !== phase.budget_seconds && (
          <Button variant="default" onClick={() => change({ budget: undefined })}>
            Back to {phase.budget_seconds} s
          </Button>
        )}
      </div>
      {(pools.error ?? boots.error) && <FailurePanel error={pools.error ?? boots.error} />}
      <div className={columns.stack}>
        <Panel
          title={pool && `Boots of ${pool}`}
          aside={
            phase && (
              <Text size="sm" c="dimmed">
                {countWords(phase)}
              </Text>
            )
          }
          flush
        >
          {!phase && !boots.error && <TableSkeleton />}
          {phase?.samples.length === 0 && (
            <Empty icon={IconRocket} title="No boot is on record">
              <p>
                Each boot leaves its duration and how it ended. Bring a machine of this pool up, and it stands here.
              </p>
            </Empty>
          )}
          {phase && phase.samples.length > 0 && (
            <>
              <BootChart
                phase={phase}
                budget_seconds={budget_seconds}
                onBudget={(seconds) => change({ budget: String(seconds) })}
              />
              <Legend />
              <Numbers phase={phase} budget_seconds={budget_seconds} />
            </>
          )}
        </Panel>
        {phase && phase.samples.length > 0 && (
          <Panel title="On record" flush>
            <BootSampleTable samples={phase.samples} sort={search.sort} onSort={(sort) => change({ sort })} />
          </Panel>
        )}
      </div>
    </>
  );
}

const countWords = ({ samples, budget_seconds, budget_source }: BootPhase) =>
  `${samples.length === 1 ? '1 boot' : `the last ${samples.length} boots`} · budget ${budget_seconds} s, from ${budget_source}`;

const legend: { outcome: Outcome; words: string; style: string | undefined }[] = [
  { outcome: 'completed', words: 'came in time', style: styles.completed },
  { outcome: 'late', words: 'came after it was given up', style: styles.late },
  { outcome: 'timed_out', words: 'given up; would have taken longer', style: styles.timedOut },
  { outcome: 'cancelled', words: 'ended by somebody; not known', style: styles.cancelled },
];

const Legend = () => (
  <ul className={styles.legend}>
    {legend.map(({ outcome, words, style }) => (
      <li key={outcome}>
        <svg width="14" height="14" aria-hidden>
          <rect x="1" y="1" width="12" height="12" rx="2" className={style} />
        </svg>
        {words}
      </li>
    ))}
    <li>
      <svg width="18" height="14" aria-hidden>
        <path d="M0,2H7V12H18" className={styles.curve} />
      </svg>
      share still on its way
    </li>
  </ul>
);

function Numbers({ phase, budget_seconds }: { phase: BootPhase; budget_seconds: number }) {
  const sides = useMemo(() => against(phase.samples, budget_seconds), [phase, budget_seconds]);
  const seconds = (value: number | null) => (value === null ? '–' : precise(value));
  return (
    <dl className={`${styles.numbers} tabular`}>
      <Fact name="Median" value={seconds(phase.p50_seconds)} />
      <Fact name="90 of 100 within" value={seconds(phase.p90_seconds)} />
      <Fact name="99 of 100 within" value={seconds(phase.p99_seconds)} />
      <Fact name={`Came within ${budget_seconds} s`} value={`${sides.in_time}`} of={sides.boots} />
      <Fact name="Came later than that" value={`${sides.later}`} of={sides.boots} />
      <Fact name="Never came" value={`${sides.never}`} of={sides.boots} />
    </dl>
  );
}

const Fact = ({ name, value, of }: { name: string; value: string; of?: number }) => (
  <div>
    <dt>{name}</dt>
    <dd>
      {value} {of !== undefined && <small>of {of}</small>}
    </dd>
  </div>
);
