/** The newest restore of the database: the machines that differ, and the button that ends it. */
import { Button } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { restoredDifferenceKinds } from '../../../../src/lifecycle/findings/restored-differences.ts';
import { comparisonMs, differencesQuery, restorationQuery } from '../../api/queries/restoration.ts';
import { mayOperate, useSession } from '../../api/session.ts';
import { IconShieldCheck } from '../../ui/icons.generated.ts';
import columns from '../../ui/layout/Columns.module.css';
import { Empty } from '../../ui/layout/Empty.tsx';
import { Facts } from '../../ui/layout/Facts.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import { TableSkeleton } from '../../ui/loading/Skeletons.tsx';
import { LoadMore } from '../../ui/table/LoadMore.tsx';
import { humanize } from '../../ui/text.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { DifferenceKinds } from './DifferenceKinds.tsx';
import { DifferenceTable } from './DifferenceTable.tsx';
import { EndRestorationDialog } from './lazy-dialog.ts';
import type { Restoration } from './words.ts';

export function RestorationPage() {
  const session = useSession();
  const [isEndOpen, setIsEndOpen] = useState(false);
  const { data: state, error } = useQuery({
    ...restorationQuery,
    refetchInterval: ({ state }) => state.data?.observing && comparisonMs,
  });
  const newest = state?.newest;
  return (
    <>
      <PageHeader
        title="Restoration"
        tab="Restoration"
        below={newest && (state.observing ? 'Compare these machines, then let the servers act' : 'The servers act')}
        actions={
          state?.observing &&
          mayOperate(session) && <Button onClick={() => setIsEndOpen(true)}>Let the servers act</Button>
        }
      />
      {error && <FailurePanel error={error} />}
      {!state && !error && (
        <Panel>
          <TableSkeleton />
        </Panel>
      )}
      {state && !newest && (
        <Panel>
          <Empty icon={IconShieldCheck} title="The database was never restored">
            <p>
              After a restore the servers only observe. The machines that differ from the restored rows are listed here.
            </p>
          </Empty>
        </Panel>
      )}
      {newest && (
        <>
          <div className={columns.columns}>
            <Differences restoration={newest} isObserving={state.observing} />
            <RestorationFacts restoration={newest} />
          </div>
          <EndRestorationDialog opened={isEndOpen} onClose={() => setIsEndOpen(false)} restoration={newest} />
        </>
      )}
    </>
  );
}

interface Props {
  restoration: Restoration;
  isObserving: boolean;
}

function Differences({ restoration: { differences, inspected_at }, isObserving }: Props) {
  const list = useInfiniteQuery({ ...differencesQuery, refetchInterval: isObserving && comparisonMs });
  const rows = list.data?.pages.flatMap((page) => page.items);
  if (restoredDifferenceKinds.every((kind) => differences[kind] === 0))
    return (
      <Panel>
        <Empty icon={IconShieldCheck} title={isObserving ? 'No machine differs from its row' : 'Nothing to compare'}>
          <p>{inspected_at ? 'Every machine was inspected.' : 'Not every machine was inspected.'}</p>
        </Empty>
      </Panel>
    );
  return (
    <div className={columns.stack}>
      <Panel title={isObserving ? 'What differs' : 'What differed'} flush>
        <DifferenceKinds counts={differences} />
      </Panel>
      {list.error && <FailurePanel error={list.error} />}
      <Panel title={isObserving ? 'Machines that differ' : 'Machines that differed'} flush>
        {!rows && !list.error && <TableSkeleton />}
        {rows && <DifferenceTable differences={rows} />}
        <LoadMore list={list} label="Show more" />
      </Panel>
    </div>
  );
}

const RestorationFacts = ({ restoration }: { restoration: Restoration }) => {
  const { sign, began_at, remembers_until, inspected_at, ended_at, ended_by, end_reason } = restoration;
  return (
    <Panel title="The restore">
      <Facts
        facts={[
          ['Restored', <Ago key="began" at={began_at} />],
          ['Noticed by', humanize(sign)],
          ['Rows until', remembers_until === null ? 'unknown' : <Ago key="memory" at={remembers_until} />],
          ['Inspected', inspected_at === null ? 'not every machine' : <Ago key="inspected" at={inspected_at} />],
          ['Ended', ended_at && <Ago at={ended_at} />],
          ['Ended by', ended_by?.name],
          ['Reason', end_reason],
        ]}
      />
    </Panel>
  );
};
