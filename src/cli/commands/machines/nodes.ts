/** `slipway nodes`: lists nodes. */
import { Option } from 'commander';
import type { Allocation } from '../../../contract/allocation.ts';
import type { Node } from '../../../contract/node.ts';
import { type NodeStatus, nodeStatuses, nodeStatusNames } from '../../../lifecycle/model/states.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { collect, collectEach } from '../../connection/pages.ts';
import type { Session } from '../../connection/session.ts';
import { nodeColumns } from '../../render/machines/node.ts';
import { limitOption } from '../../terminal/option-values.ts';
import { countByStatus, printListing } from '../../terminal/print-listing.ts';

export interface NodeFilter {
  pool?: string;
  status?: NodeStatus;
  query?: string;
  held?: boolean;
  all?: boolean;
  limit: number;
}

const liveStatuses = nodeStatusNames.filter((status) => nodeStatuses[status].class !== 'terminal');

export function listNodes(session: Session, filter: NodeFilter) {
  const { pool, query, held } = filter;
  const statuses: (NodeStatus | undefined)[] = filter.status
    ? [filter.status]
    : filter.all
      ? [undefined]
      : liveStatuses;
  return collectEach<Node, NodeStatus | undefined>(
    statuses,
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

/** Fetches failed releases, but only if one of the nodes may wait for a retry. */
async function fetchFailedReleases(session: Session, nodes: Node[]): Promise<Map<string, Allocation>> {
  const waiting = nodes.filter(({ status, allocation_id }) => status === 'cleaning' && allocation_id !== null);
  if (waiting.length === 0 || session.json) return new Map();
  const pools = new Set(waiting.map(({ pool }) => pool));
  const [pool] = pools.size === 1 ? pools : [];
  const { items } = await collect<Allocation>(
    (paging) =>
      session.call('allocation-list', { query: { ...paging, status: 'release_failed', ...(pool && { pool }) } }),
    maxFailedReleases,
  );
  return new Map(items.map((allocation) => [allocation.allocation_id, allocation]));
}

const maxFailedReleases = 2000;

export const makeNodes: MakeCommand = (cli) =>
  new SlipwayCommand('nodes')
    .description('List the nodes that are not retired, newest first.')
    .option('-p, --pool <pool>', 'only those of this pool')
    .addOption(new Option('-s, --status <status>', 'only those in this status').choices(nodeStatusNames))
    .option('-q, --query <text>', 'only those whose id or name contains this')
    .option('--held', 'only those with a held verdict')
    .option('-a, --all', 'include retired ones')
    .addOption(limitOption(500))
    .examples('slipway nodes --status failed', 'slipway nodes --json')
    .action(
      cli.run<NodeFilter>(async (session, filter) => {
        const hasFilter = filter.pool || filter.status || filter.query || filter.held;
        const listing = await listNodes(session, filter);
        const failed = await fetchFailedReleases(session, listing.items);
        printListing(session, listing, {
          columns: nodeColumns(session.clock.nowMs(), failed),
          has_limit: true,
          empty: hasFilter
            ? 'No node matches.'
            : `There are no nodes. Bring one up: ${session.commandLine('allocate', '--pool', 'local', '--wait')}`,
          summary: (rows) => countByStatus('node', rows),
        });
        return undefined;
      }),
    );
