/**
 * `slipway explain`: why a machine has its status and what happens next; why an allocation has no
 * machine yet; or what happened to one that is over.
 */
import type { Allocation } from '../../../contract/allocation.ts';
import { RequestRefused } from '../../../contract/client.ts';
import type { Node } from '../../../contract/node.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import {
  fetchNodeIfVisible,
  isAllocation,
  noMachineYet,
  type ResolvedNode,
  resolveNodeIfAny,
  type WithoutMachine,
} from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import { pastAllocationLines } from '../../render/allocations/past-allocation.ts';
import { type PoolStanding, waitingAllocationLines } from '../../render/allocations/waiting-allocation.ts';
import { openActionLines } from '../../render/machines/actions.ts';
import { explanationLines } from '../../render/machines/explanation.ts';
import { type RenderContext, renderContext } from '../../render/text/hints.ts';
import { printable } from '../../render/text/text.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

/** Says how the id that was given leads to this machine. */
function throughLine({ reference, node_id, node_instance_id }: ResolvedNode, node: Node): string[] {
  if (node_instance_id && node_instance_id !== node.node_instance_id)
    return [`${node_instance_id} is a former instance of ${node_id}. The node now:`, ''];
  if (!reference) return [];
  const id = isAllocation(reference) ? reference.allocation_id : reference.workflow_id;
  const reason = isAllocation(reference) && reference.reason ? `: ${printable(reference.reason)}` : '';
  return [`${id} is ${reference.status}${reason}`, `Its machine is ${node_id}:`, ''];
}

/** A retired machine has no open actions, but its allocation may. */
async function allocationActions(
  session: Session,
  { reference }: ResolvedNode,
  context: RenderContext,
): Promise<string[]> {
  if (!isAllocation(reference)) return [];
  const id = reference.allocation_id;
  const { items } = await session.call('allocation-actions', { params: { id } });
  const open = openActionLines(id, items, context);
  return open.length > 0 ? ['', context.paint('strong', 'What you can do about the allocation'), ...open] : [];
}

/** The request to release it, with its actor. */
async function releaseRequest(session: Session, allocation_id: string) {
  // The first fact: a retried release writes another one.
  const query = { allocation_id, kind: 'allocation.releasing', order: 'oldest', limit: 1 } as const;
  return (await session.call('timeline-get', { query })).items[0] ?? null;
}

/** The caller may still see the allocation of a machine that it may no longer see. */
async function pastAllocation(session: Session, { reference, node_id }: ResolvedNode): Promise<Allocation | null> {
  if (isAllocation(reference)) return reference;
  const found = await session.call('thing-find', { query: { id: reference?.allocation_id ?? node_id } });
  const id = found.items.find(({ kind }) => kind === 'allocation')?.id;
  return id === undefined ? null : session.call('allocation-get', { params: { id } });
}

async function explainPast(session: Session, allocation: Allocation): Promise<void> {
  const { out } = session.terminal;
  if (session.json) return printJson(out, allocation);
  const request = await releaseRequest(session, allocation.allocation_id);
  const machine = await fetchNodeIfVisible(session, allocation.node_id);
  printLines(out, pastAllocationLines(allocation, { request, machine }, renderContext(session)));
}

/** A tenant may not read the pool. */
const standingByCode: Record<string, PoolStanding> = { scope_insufficient: 'unseen', pool_not_found: 'gone' };

async function standingOf(session: Session, pool: string): Promise<PoolStanding> {
  try {
    const [found, { items }] = await Promise.all([
      session.call('pool-get', { params: { pool } }),
      session.call('fleet-count', {}),
    ]);
    return { pool: found, counts: items };
  } catch (error) {
    const standing = error instanceof RequestRefused ? standingByCode[error.problem.code] : undefined;
    if (standing === undefined) throw error;
    return standing;
  }
}

async function waitingLines(session: Session, allocation: Allocation, context: RenderContext): Promise<string[]> {
  const [standing, { items: actions }] = await Promise.all([
    standingOf(session, allocation.pool),
    session.call('allocation-actions', { params: { id: allocation.allocation_id } }),
  ]);
  return waitingAllocationLines(allocation, { standing, actions }, context);
}

/** The allocation waits for a machine, or ended before it had one. */
async function explainWithoutMachine(session: Session, behind: WithoutMachine): Promise<void> {
  const { reference } = behind;
  const id = reference.allocation_id;
  const allocation =
    isAllocation(reference) || id === null ? reference : await session.call('allocation-get', { params: { id } });
  // The machine that the allocation has now is not the subject of this operation.
  if (!isAllocation(allocation) || allocation.node_id !== null)
    throw noMachineYet(session, behind, 'there is nothing to explain');
  if (allocation.status !== 'requested') return explainPast(session, allocation);
  const { out } = session.terminal;
  if (session.json) return printJson(out, allocation);
  printLines(out, await waitingLines(session, allocation, renderContext(session)));
}

async function explainNode(session: Session, behind: ResolvedNode): Promise<void> {
  const params = { id: behind.node_id };
  const [explanation, node] = await Promise.all([
    session.call('node-explain', { params }),
    session.call('node-get', { params }),
  ]);
  const { out } = session.terminal;
  if (session.json) return printJson(out, explanation);
  const context = renderContext(session);
  printLines(out, [
    ...throughLine(behind, node),
    ...explanationLines(explanation, node, context),
    ...(node.status === 'retired' ? await allocationActions(session, behind, context) : []),
  ]);
}

export const makeExplain: MakeCommand = (cli) =>
  new SlipwayCommand('explain')
    .description(
      'Explain why a node has its status, what it waits for, what happens next and what you can do. For an allocation without a machine, explain why; for one that is over, what happened.',
    )
    .argument('<id>', 'any id or name: a node, an allocation, an operation, an instance, a correlation id')
    .examples('slipway explain node_…', 'slipway explain alloc_…', 'slipway explain inst_…')
    .action(
      cli.run(async (session, _, [id = '']) => {
        const behind = await resolveNodeIfAny(session, id);
        if (behind.node_id === null) {
          await explainWithoutMachine(session, behind);
          return;
        }
        if (isAllocation(behind.reference) && behind.reference.status === 'released') {
          await explainPast(session, behind.reference);
          return;
        }
        try {
          await explainNode(session, behind);
        } catch (error) {
          if (!(error instanceof RequestRefused) || error.problem.code !== 'node_not_found') throw error;
          const past = await pastAllocation(session, behind);
          if (!past) throw error;
          await explainPast(session, past);
        }
      }),
    );
