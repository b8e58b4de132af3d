/**
 * Shows how long the boots of a pool take, what another budget would have done, and the budget in
 * force.
 */
import { SegmentedControl, Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useCallback } from 'react';
import { poolBootsQuery } from '../../api/queries/boots.ts';
import { poolsQuery } from '../../api/queries/pools.ts';
import { IconRocket } from '../../ui/icons.generated.ts';
import columns from '../../ui/layout/Columns.module.css';
import { Empty } from '../../ui/layout/Empty.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import toolbar from '../../ui/layout/Toolbar.module.css';
import { DetailSkeleton } from '../../ui/loading/Skeletons.tsx';
import { BootSampleTable } from './BootSampleTable.tsx';
import { BudgetFacts } from './BudgetFacts.tsx';
import { BudgetQuestion } from './BudgetQuestion.tsx';

const route = getRouteApi('/frame/boots');

const phaseNames = [
  { value: 'provision', label: 'Until registration' },
  { value: 'start', label: 'Until ready' },
];

export function BootsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = useCallback(
    (next: Partial<typeof search>) =>
      void navigate({ search: (known) => ({ ...known, ...next }), replace: true, resetScroll: false }),
    [navigate],
  );
  const setBudgetInUrl = useCallback(
    (seconds: number | undefined) => change({ budget: seconds === undefined ? undefined : String(seconds) }),
    [change],
  );
  const pools = useQuery(poolsQuery);
  const pool = search.pool ?? pools.data?.[0]?.name;
  const boots = useQuery({ ...poolBootsQuery(pool ?? ''), enabled: pool !== undefined });
  const phase = boots.data?.phases.find((each) => each.phase === (search.phase ?? 'provision'));
  const budgetInUrl = Number(search.budget);
  const error = pools.error ?? boots.error;
  return (
    <>
      <PageHeader
        title="Boots"
        tab="Boots"
        below={<span>How long boots take, and what another budget would have done</span>}
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
      </div>
      {error && <FailurePanel error={error} />}
      {!phase && !error && <DetailSkeleton />}
      {pool && phase && boots.data && (
        <div className={columns.stack}>
          {phase.samples.length === 0 ? (
            <div className={columns.columns}>
              <Panel title={`Boots of ${pool}`} flush>
                <Empty icon={IconRocket} title="No boots recorded">
                  <p>
                    Each boot records its duration and outcome. Bring up a machine of this pool to see the first one.
                  </p>
                </Empty>
              </Panel>
              <BudgetFacts phase={phase} make={boots.data.make} />
            </div>
          ) : (
            <>
              <BudgetQuestion
                key={`${pool} ${phase.phase}`}
                pool={pool}
                phase={phase}
                initial={budgetInUrl > 0 ? budgetInUrl : undefined}
                onSettled={setBudgetInUrl}
              >
                <BudgetFacts phase={phase} make={boots.data.make} />
              </BudgetQuestion>
              <Panel title="Recorded boots" flush>
                <BootSampleTable samples={phase.samples} sort={search.sort} onSort={(sort) => change({ sort })} />
              </Panel>
            </>
          )}
        </div>
      )}
    </>
  );
}
