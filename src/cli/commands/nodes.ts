/** `slipway nodes`: the machines that live. */
import { Option } from 'commander';
import type { Node } from '../../contract/node.ts';
import { type NodeStatus, nodeStatuses, nodeStatusNames } from '../../lifecycle/states.ts';
import { type MakeCommand, SlipwayCommand } from '../command.ts';
import { limitOption } from '../option-values.ts';
import { collectEach } from '../pages.ts';
import { countByStatus, printListing } from '../print-listing.ts';
import { nodeColumns } from '../render/node.ts';
import type { Session } from '../session.ts';

export interface NodeFilter {
  pool?: string;
  status?: NodeStatus;
  query?: string;
  held?: boolean;
  all?: boolean;
  limit: number;
}

const living = nodeStatusNames.filter((status) => nodeStatuses[status].class !== 'terminal');

export function listNodes(session: Session, filter: NodeFilter) {
  const { pool, query, held } = filter;
  const chosen: (NodeStatus | undefined)[] = filter.status ? [filter.status] : filter.all ? [undefined] : living;
  return collectEach<Node, NodeStatus | undefined>(
    chosen,
    (status) => (paging) =>
      session.call('node-list', {
        query: {
          ...paging,
          ...(pool && { pool }),
          ...(query && { q: query }),
          ...(held && { held }),
          ...(status && { status }),
        },
      }),
    filter.limit,
  );
}

export const makeNodes: MakeCommand = (cli) =>
  new SlipwayCommand('nodes')
    .description('List the nodes that are not retired, newest first.')
    .option('-p, --pool <pool>', 'only those of this pool')
    .addOption(new Option('-s, --status <status>', 'only those in this status').choices(nodeStatusNames))
    .option('-q, --query <text>', 'only those whose id or name contains this')
    .option('--held', 'only those whose verdict is held back')
    .option('-a, --all', 'retired ones too')
    .addOption(limitOption(500))
    .examples('slipway nodes --status failed', 'slipway nodes --json')
    .action(
      cli.run<NodeFilter>(async (session, filter) => {
        const narrowed = filter.pool || filter.status || filter.query || filter.held;
        printListing(session, await listNodes(session, filter), {
          columns: nodeColumns(session.clock.nowMs()),
          empty: narrowed
            ? 'No node matches.'
            : `There are no nodes. Bring one up: ${session.commandLine('allocate', '--pool', 'local', '--wait')}`,
          summary: (rows) => countByStatus('node', rows),
        });
        return undefined;
      }),
    );
