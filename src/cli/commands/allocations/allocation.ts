/** `slipway allocation`: shows one allocation in full. */
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { fetchNodeIfVisible, resolveAllocation } from '../../connection/resolve-id.ts';
import { allocationLines, requestLines } from '../../render/allocations/allocation.ts';
import { availableActionLines } from '../../render/machines/actions.ts';
import { renderContext } from '../../render/text/hints.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

export const makeAllocation: MakeCommand = (cli) =>
  new SlipwayCommand('allocation')
    .description('Show one allocation: its status and why, its machine, its deadline, and what you can do about it.')
    .argument('<id>', 'the id or name of an allocation, or of its node or one of its operations')
    .action(
      cli.run(async (session, _, [word = '']) => {
        const id = await resolveAllocation(session, word);
        const allocation = await session.call('allocation-get', { params: { id } });
        const { out } = session.terminal;
        if (session.json) {
          printJson(out, allocation);
          return undefined;
        }
        const machine = allocation.status === 'active' ? await fetchNodeIfVisible(session, allocation.node_id) : null;
        const { items } = await session.call('allocation-actions', { params: { id } });
        const { requests } = await session.call('thing-find', { query: { id } });
        const context = renderContext(session);
        const actionLines = availableActionLines(id, items, context);
        printLines(out, [
          ...allocationLines(allocation, machine, context.nowMs, context),
          ...requestLines(requests, context.nowMs, context),
          ...(actionLines.length > 0 ? ['', context.paint('strong', 'What you can do'), ...actionLines] : []),
        ]);
        return undefined;
      }),
    );
