/** `slipway operations`: lists running and finished operations. */
import { Option } from 'commander';
import type { Operation } from '../../../contract/operation.ts';
import { type OperationStatus, operationStatuses } from '../../../lifecycle/model/states.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { collect } from '../../connection/pages.ts';
import { operationColumns } from '../../render/allocations/operation.ts';
import { limitOption } from '../../terminal/option-values.ts';
import { countByStatus, printListing } from '../../terminal/print-listing.ts';

interface Options {
  status?: OperationStatus;
  kind?: string;
  node?: string;
  allocation?: string;
  limit: number;
}

export const makeOperations: MakeCommand = (cli) =>
  new SlipwayCommand('operations')
    .description('List the operations, newest first.')
    .addOption(new Option('-s, --status <status>', 'only those in this status').choices(operationStatuses))
    .option('-k, --kind <kind>', 'only those of this kind, like node-provision')
    .option('--node <id>', 'only those on this node')
    .option('--allocation <id>', 'only those on this allocation')
    .addOption(limitOption(50))
    .action(
      cli.run<Options>(async (session, { status, kind, node, allocation, limit }) => {
        const query = {
          ...(status && { status }),
          ...(kind && { kind }),
          ...(node && { node_id: node }),
          ...(allocation && { allocation_id: allocation }),
        };
        const listing = await collect<Operation>(
          (paging) => session.call('operation-list', { query: { ...query, ...paging } }),
          limit,
        );
        printListing(session, listing, {
          columns: operationColumns(session.clock.nowMs()),
          has_limit: true,
          empty: 'No operation matches.',
          summary: (rows) => countByStatus('operation', rows),
        });
        return undefined;
      }),
    );
