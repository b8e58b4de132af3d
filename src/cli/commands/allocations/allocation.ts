/** `slipway allocation`: shows one allocation in full. */
import type { Allocation } from '../../../contract/allocation.ts';
import { RequestRefused } from '../../../contract/client.ts';
import type { Node } from '../../../contract/node.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { resolveAllocation } from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import { allocationLines, requestLines } from '../../render/allocations/allocation.ts';
import { openActionLines } from '../../render/machines/actions.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';

/** Null if it has no machine, or if the tenant may no longer see it. */
async function machineOf(session: Session, { status, node_id }: Allocation): Promise<Node | null> {
  if (status !== 'active' || node_id === null) return null;
  try {
    return await session.call('node-get', { params: { id: node_id } });
  } catch (error) {
    if (error instanceof RequestRefused) return null;
    throw error;
  }
}

export const makeAllocation: MakeCommand = (cli) =>
  new SlipwayCommand('allocation')
    .description('Show one allocation: its status and why, its machine, its deadline, and what you can do about it.')
    .argument('<id>', 'an allocation, by its id or name, or its node or operation')
    .action(
      cli.run(async (session, _, [word = '']) => {
        const id = await resolveAllocation(session, word);
        const allocation = await session.call('allocation-get', { params: { id } });
        const { out } = session.terminal;
        if (session.json) {
          printJson(out, allocation);
          return undefined;
        }
        const machine = await machineOf(session, allocation);
        const { items } = await session.call('allocation-actions', { params: { id } });
        const { requests } = await session.call('thing-find', { query: { id } });
        const context = { ...fitOf(out), nowMs: session.clock.nowMs(), commandLine: session.commandLine };
        const open = openActionLines(id, items, context);
        printLines(out, [
          ...allocationLines(allocation, machine, context.nowMs, context),
          ...requestLines(requests, context.nowMs, context),
          ...(open.length > 0 ? ['', context.paint('strong', 'What you can do'), ...open] : []),
        ]);
        return undefined;
      }),
    );
