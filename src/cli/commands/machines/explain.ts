/** `slipway explain`: why a machine stands where it stands, and what happens next; of what has none yet, why; of what has none any more, what became of it. */
import type { Allocation } from '../../../contract/allocation.ts';
import { RequestRefused } from '../../../contract/client.ts';
import type { Node } from '../../../contract/node.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import {
  hasNoMachine,
  isAllocation,
  type Machineless,
  type NodeBehind,
  whatIsBehind,
} from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import type { ClosingContext } from '../../render/allocations/outcome.ts';
import { pastAllocationLines } from '../../render/allocations/past-allocation.ts';
import { openActionLines } from '../../render/machines/actions.ts';
import { explanationLines } from '../../render/machines/explanation.ts';
import { printable } from '../../render/text/text.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';
import { waitingForMachine } from './waiting-for-machine.ts';

/** Who named something else than the machine wants to hear of it as well. */
function throughLine({ through, node_id, node_instance_id }: NodeBehind, node: Node): string[] {
  if (node_instance_id && node_instance_id !== node.node_instance_id)
    return [`${node_instance_id} is a former instance of ${node_id}, which stands so now:`, ''];
  if (!through) return [];
  const id = isAllocation(through) ? through.allocation_id : through.workflow_id;
  const reason = isAllocation(through) && through.reason ? `: ${printable(through.reason)}` : '';
  return [`${id} is ${through.status}${reason}`, `Its machine is ${node_id}:`, ''];
}

/** Of a machine that is gone nothing is open any more; of the allocation that it leaves behind there is. */
async function leftToDo(session: Session, { through }: NodeBehind, context: ClosingContext): Promise<string[]> {
  if (!isAllocation(through)) return [];
  const id = through.allocation_id;
  const { items } = await session.call('allocation-actions', { params: { id } });
  const open = openActionLines(id, items, context);
  return open.length > 0 ? ['', context.paint('strong', 'What you can do about the allocation'), ...open] : [];
}

/** The fact by which it began to be given back; whoever asked for that stands in it. */
async function askedBack(session: Session, allocation_id: string) {
  // The first one: a release that failed is begun again, and that is no longer the asking.
  const query = { allocation_id, kind: 'allocation.releasing', order: 'oldest', limit: 1 } as const;
  return (await session.call('timeline-get', { query })).items[0] ?? null;
}

/** A machine that is not to be seen any more may have served an allocation that is. */
async function pastOf(session: Session, { through, node_id }: NodeBehind): Promise<Allocation | null> {
  if (isAllocation(through)) return through;
  const found = await session.call('thing-find', { query: { id: through?.allocation_id ?? node_id } });
  const id = found.items.find(({ kind }) => kind === 'allocation')?.id;
  return id === undefined ? null : session.call('allocation-get', { params: { id } });
}

const contextOf = (session: Session): ClosingContext => ({
  ...fitOf(session.terminal.out),
  nowMs: session.clock.nowMs(),
  commandLine: session.commandLine,
});

/** Null where it is not to be seen any more. */
async function machineOf(session: Session, { node_id }: Allocation): Promise<Node | null> {
  if (node_id === null) return null;
  try {
    return await session.call('node-get', { params: { id: node_id } });
  } catch (error) {
    if (error instanceof RequestRefused) return null;
    throw error;
  }
}

async function tellPast(session: Session, allocation: Allocation): Promise<void> {
  const { out } = session.terminal;
  if (session.json) return printJson(out, allocation);
  const asked = await askedBack(session, allocation.allocation_id);
  const machine = await machineOf(session, allocation);
  printLines(out, pastAllocationLines(allocation, { asked, machine }, contextOf(session)));
}

/** It still waits for a machine, or ended before it had one. */
async function tellMachineless(session: Session, behind: Machineless): Promise<void> {
  const { through } = behind;
  const id = through.allocation_id;
  const allocation =
    isAllocation(through) || id === null ? through : await session.call('allocation-get', { params: { id } });
  // An operation that never had a machine says nothing of the one that its allocation has by now.
  if (!isAllocation(allocation) || allocation.node_id !== null)
    throw hasNoMachine(session, behind, 'there is nothing to explain');
  if (allocation.status !== 'requested') return tellPast(session, allocation);
  const { out } = session.terminal;
  if (session.json) return printJson(out, allocation);
  printLines(out, await waitingForMachine(session, allocation, contextOf(session)));
}

async function tellNode(session: Session, behind: NodeBehind): Promise<void> {
  const params = { id: behind.node_id };
  const [explanation, node] = await Promise.all([
    session.call('node-explain', { params }),
    session.call('node-get', { params }),
  ]);
  const { out } = session.terminal;
  if (session.json) return printJson(out, explanation);
  const context = contextOf(session);
  printLines(out, [
    ...throughLine(behind, node),
    ...explanationLines(explanation, node, context),
    ...(node.status === 'retired' ? await leftToDo(session, behind, context) : []),
  ]);
}

export const makeExplain: MakeCommand = (cli) =>
  new SlipwayCommand('explain')
    .description(
      'Say why a node stands where it stands, what it waits for, what happens next and what you can do; of an allocation that has no machine yet, why there is none; of one that is over, what became of it.',
    )
    .argument('<id>', 'any id or name: a node, an allocation, an operation, an instance, a correlation id')
    .examples('slipway explain node_…', 'slipway explain alloc_…', 'slipway explain inst_…')
    .action(
      cli.run(async (session, _, [id = '']) => {
        const behind = await whatIsBehind(session, id);
        if (behind.node_id === null) {
          await tellMachineless(session, behind);
          return;
        }
        if (isAllocation(behind.through) && behind.through.status === 'released') {
          await tellPast(session, behind.through);
          return;
        }
        try {
          await tellNode(session, behind);
        } catch (error) {
          if (!(error instanceof RequestRefused) || error.problem.code !== 'node_not_found') throw error;
          const past = await pastOf(session, behind);
          if (!past) throw error;
          await tellPast(session, past);
        }
      }),
    );
