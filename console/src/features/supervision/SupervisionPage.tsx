/** Held verdicts, maintenance windows, the state of each sweep, and gaps of the control plane. */
import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import type { Brake } from '../../../../src/contract/supervision/supervision.ts';
import { useRestoration } from '../../api/queries/restoration.ts';
import { brakeQuery, sweepsQuery } from '../../api/queries/supervision.ts';
import { mayOperate, useSession } from '../../api/session.ts';
import { IconShieldCheck } from '../../ui/icons.generated.ts';
import columns from '../../ui/layout/Columns.module.css';
import { Empty } from '../../ui/layout/Empty.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import { TableSkeleton } from '../../ui/loading/Skeletons.tsx';
import type { Action } from '../actions/action.ts';
import { ActionDialog } from '../actions/lazy-dialog.ts';
import { RestorationLink } from '../restoration/RestorationBanner.tsx';
import { HoldList } from './HoldList.tsx';
import { MaintenanceTable } from './MaintenanceTable.tsx';
import { GapTable, PastHolds } from './PastHolds.tsx';
import { SweepTable } from './SweepTable.tsx';
import { heartbeatWords, heldHeadline, isOpenHold } from './words.ts';

const route = getRouteApi('/frame/supervision');

export function SupervisionPage() {
  const { sort } = route.useSearch();
  const navigate = route.useNavigate();
  const session = useSession();
  const brake = useQuery(brakeQuery);
  const sweeps = useQuery(sweepsQuery);
  const isObserving = useRestoration()?.observing ?? false;
  const [action, setAction] = useState<Action | null>(null);
  return (
    <>
      <PageHeader
        title="Supervision"
        tab="Supervision"
        below={
          <>
            {brake.data && <span>{`${heldHeadline(brake.data)}. ${heartbeatWords(brake.data)}`}</span>}
            <RestorationLink />
          </>
        }
      />
      <div className={columns.stack}>
        {brake.error && <FailurePanel error={brake.error} />}
        <Panel title="Held back" flush>
          {brake.data ? (
            <Held brake={brake.data} isObserving={isObserving} onAction={mayOperate(session) ? setAction : undefined} />
          ) : (
            !brake.error && <TableSkeleton />
          )}
        </Panel>
        {brake.data && brake.data.maintenance.length > 0 && (
          <Panel title="Maintenance" flush>
            <MaintenanceTable windows={brake.data.maintenance} />
          </Panel>
        )}
        {sweeps.error && <FailurePanel error={sweeps.error} />}
        <Panel title="Sweeps" aside={sweeps.data && <Text size="xs">replica {sweeps.data.replica_id}</Text>} flush>
          {sweeps.data ? (
            <SweepTable
              sweeps={sweeps.data.items}
              isObserving={isObserving}
              sort={sort}
              onSort={(sort) => void navigate({ search: { sort }, replace: true, resetScroll: false })}
            />
          ) : (
            !sweeps.error && <TableSkeleton />
          )}
        </Panel>
        {brake.data && <Past brake={brake.data} />}
      </div>
      <ActionDialog action={action} onClose={() => setAction(null)} />
    </>
  );
}

interface HeldProps {
  brake: Brake;
  /** The database was restored, so no rule decides. */
  isObserving: boolean;
  onAction: ((action: Action) => void) | undefined;
}

function Held({ brake, isObserving, onAction }: HeldProps) {
  const open = brake.holds.filter(isOpenHold);
  if (open.length > 0) return <HoldList holds={open} onAction={onAction} />;
  return (
    <Empty icon={IconShieldCheck} title={heldHeadline(brake)}>
      <p>{emptyReason(brake, isObserving)}</p>
    </Empty>
  );
}

function emptyReason({ holding }: Brake, isObserving: boolean): string {
  if (isObserving) return 'The database was restored. No rule decides until you let the servers act.';
  return holding
    ? 'The cause is maintenance, or a provider that does not answer. Each node page shows which. Verdicts resume afterwards.'
    : 'Rules decide without delay. If many machines fail at once, further verdicts are held here.';
}

const maxPast = 5;

const countNote = (all: unknown[]) =>
  all.length > maxPast && (
    <Text size="xs" c="dimmed">
      the newest {maxPast} of {all.length}
    </Text>
  );

/** Shows each table only if it has entries. */
function Past({ brake }: { brake: Brake }) {
  const past = brake.holds.filter((hold) => !isOpenHold(hold));
  return (
    <>
      {past.length > 0 && (
        <Panel title="Earlier holds" aside={countNote(past)} flush>
          <PastHolds holds={past.slice(0, maxPast)} />
        </Panel>
      )}
      {brake.gaps.length > 0 && (
        <Panel title="Gaps of the control plane" aside={countNote(brake.gaps)} flush>
          <GapTable gaps={brake.gaps.slice(0, maxPast)} />
        </Panel>
      )}
    </>
  );
}
