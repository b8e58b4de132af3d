/** `slipway allocations`: lists allocations. */
import { Option } from 'commander';
import type { Allocation } from '../../../contract/allocation.ts';
import { type AllocationStatus, allocationStatuses, allocationStatusNames } from '../../../lifecycle/model/states.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { collectEach } from '../../connection/pages.ts';
import type { Session } from '../../connection/session.ts';
import { allocationColumns } from '../../render/allocations/allocation.ts';
import { limitOption } from '../../terminal/option-values.ts';
import { countByStatus, printListing } from '../../terminal/print-listing.ts';

export interface AllocationFilter {
  pool?: string;
  status?: AllocationStatus;
  label?: string;
  tenant?: string;
  all?: boolean;
  limit: number;
}

const liveStatuses = allocationStatusNames.filter((status) => allocationStatuses[status].class !== 'terminal');

export function listAllocations(session: Session, filter: AllocationFilter) {
  const { pool, label, tenant } = filter;
  const statuses: (AllocationStatus | undefined)[] = filter.status
    ? [filter.status]
    : filter.all
      ? [undefined]
      : liveStatuses;
  return collectEach<Allocation, AllocationStatus | undefined>(
    statuses,
    (status) => (paging) =>
      session.call('allocation-list', {
        query: {
          ...paging,
          ...(pool && { pool }),
          ...(label && { label }),
          ...(tenant && { tenant }),
          ...(status && { status }),
        },
      }),
    filter.limit,
  );
}

export const makeAllocations: MakeCommand = (cli) =>
  new SlipwayCommand('allocations')
    .description('List the allocations that are not released, newest first.')
    .option('-p, --pool <pool>', 'only those of this pool')
    .addOption(new Option('-s, --status <status>', 'only those in this status').choices(allocationStatusNames))
    .option('-l, --label <key=value>', 'only those with this label')
    .option('--tenant <tenant>', 'only those of this tenant')
    .option('-a, --all', 'include released ones')
    .addOption(limitOption(500))
    .action(
      cli.run<AllocationFilter>(async (session, filter) => {
        const hasFilter = filter.pool || filter.status || filter.label || filter.tenant;
        printListing(session, await listAllocations(session, filter), {
          columns: allocationColumns(session.clock.nowMs()),
          has_limit: true,
          empty: hasFilter
            ? 'No allocation matches.'
            : `There are no allocations. Claim a machine: ${session.commandLine('allocate', '--pool', 'local', '--wait')}`,
          summary: (rows) => countByStatus('allocation', rows),
        });
        return undefined;
      }),
    );
