/**
 * `slipway explain`: says why a machine has its status and what happens next. For an allocation,
 * says why it has no machine yet, or what happened to it.
 */
import type { Allocation } from '../../../contract/allocation.ts';
import { RequestRefused } from '../../../contract/client.ts';
import type { Node } from '../../../contract/node.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import {
  fetchNodeIfVisible,
  isAllocation,
  type ResolvedNode,
  resolveNodeIfAny,
  type WithoutMachine,
  withoutMachine,
} from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import { pastAllocationLines } from '../../render/allocations/past-allocation.ts';
import { type PoolCapacity, waitingAllocationLines } from '../../render/allocations/waiting-allocation.ts';
import { availableActionLines } from '../../render/machines/actions.ts';
import { explanationLines } from '../../render/machines/explanation.ts';
import { type RenderContext, renderContext } from '../../render/text/hints.ts';
import { printable } from '../../render/text/text.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

/** Says how the id that the user typed leads to this machine. */
function referenceLines({ reference, node_id, node_instance_id }: ResolvedNode, node: Node): string[] {
  if (node_instance_id && node_instance_id !== node.node_instance_id)
    return [`${node_instance_id} is a former instance of ${node_id}. The node now:`, ''];
  if (!reference) return [];
  const id = isAllocation(reference) ? reference.allocation_id : reference.workflow_id;
  const reason = isAllocation(reference) && reference.reason ? `: ${printable(reference.reason)}` : '';
  return [`${id} is ${reference.status}${reason}`, `Its machine is ${node_id}:`, ''];
}

/** A retired machine has no available actions, but its allocation may have some. */
async function fetchAllocationActionLines(
  session: Session,
  { reference }: ResolvedNode,
  context: RenderContext,
): Promise<string[]> {
  if (!isAllocation(reference)) return [];
  const id = reference.allocation_id;
  const { items } = await session.call('allocation-actions', { params: { id } });
  const lines = availableActionLines(id, items, context);
  return lines.length > 0 ? ['', context.paint('strong', 'What you can do about the allocation'), ...lines] : [];
}

/** Fetches the evidence of the request to release the allocation; it names the actor. */
async function fetchReleaseRequest(session: Session, allocation_id: string) {
  // Takes the first fact, because a retried release writes another one.
  const query = { allocation_id, kind: 'allocation.releasing', order: 'oldest', limit: 1 } as const;
  return (await session.call('timeline-get', { query })).items[0] ?? null;
}

/** Finds the past allocation of a machine that the caller may no longer see. */
async function fetchPastAllocation(session: Session, { reference, node_id }: ResolvedNode): Promise<Allocation | null> {
  if (isAllocation(reference)) return reference;
  const found = await session.call('thing-find', { query: { id: reference?.allocation_id ?? node_id } });
  const id = found.items.find(({ kind }) => kind === 'allocation')?.id;
  return id === undefined ? null : session.call('allocation-get', { params: { id } });
}

async function explainPast(session: Session, allocation: Allocation): Promise<void> {
  const { out } = session.terminal;
  if (session.json) return printJson(out, allocation);
  const request = await fetchReleaseRequest(session, allocation.allocation_id);
  const machine = await fetchNodeIfVisible(session, allocation.node_id);
  printLines(out, pastAllocationLines(allocation, { request, machine }, renderContext(session)));
}

/** A tenant may not read a pool, and a pool may have been deleted. */
const capacityByCode: Record<string, PoolCapacity> = { scope_insufficient: 'hidden', pool_not_found: 'deleted' };

async function fetchCapacity(session: Session, pool: string): Promise<PoolCapacity> {
  try {
    const [details, { items }] = await Promise.all([
      session.call('pool-get', { params: { pool } }),
      session.call('fleet-count', {}),
    ]);
    return { pool: details, counts: items };
  } catch (error) {
    const capacity = error instanceof RequestRefused ? capacityByCode[error.problem.code] : undefined;
    if (capacity === undefined) throw error;
    return capacity;
  }
}

async function fetchWaitingLines(session: Session, allocation: Allocation, context: RenderContext): Promise<string[]> {
  const [capacity, { items: actions }] = await Promise.all([
    fetchCapacity(session, allocation.pool),
    session.call('allocation-actions', { params: { id: allocation.allocation_id } }),
  ]);
  return waitingAllocationLines(allocation, { capacity, actions }, context);
}

/** Explains an allocation that waits for a machine, or that ended before it had one. */
async function explainWithoutMachine(session: Session, resolved: WithoutMachine): Promise<void> {
  const { reference } = resolved;
  const id = reference.allocation_id;
  const allocation =
    isAllocation(reference) || id === null ? reference : await session.call('allocation-get', { params: { id } });
  // If the allocation has a machine now, the operation was not about that machine.
  if (!isAllocation(allocation) || allocation.node_id !== null)
    throw withoutMachine(session, resolved, 'there is nothing to explain');
  if (allocation.status !== 'requested') return explainPast(session, allocation);
  const { out } = session.terminal;
  if (session.json) return printJson(out, allocation);
  printLines(out, await fetchWaitingLines(session, allocation, renderContext(session)));
}

async function explainNode(session: Session, resolved: ResolvedNode): Promise<void> {
  const params = { id: resolved.node_id };
  const [explanation, node] = await Promise.all([
    session.call('node-explain', { params }),
    session.call('node-get', { params }),
  ]);
  const { out } = session.terminal;
  if (session.json) return printJson(out, explanation);
  const context = renderContext(session);
  printLines(out, [
    ...referenceLines(resolved, node),
    ...explanationLines(explanation, node, context),
    ...(node.status === 'retired' ? await fetchAllocationActionLines(session, resolved, context) : []),
  ]);
}

export const makeExplain: MakeCommand = (cli) =>
  new SlipwayCommand('explain')
    .description(
      'Explain why a node has its status, what it waits for, what happens next and what you can do. For an allocation without a machine, explain why there is none; for a past one, what happened.',
    )
    .argument('<id>', 'any id or name: a node, an allocation, an operation, an instance, a correlation id')
    .examples('slipway explain node_…', 'slipway explain alloc_…', 'slipway explain inst_…')
    .action(
      cli.run(async (session, _, [id = '']) => {
        const resolved = await resolveNodeIfAny(session, id);
        if (resolved.node_id === null) {
          await explainWithoutMachine(session, resolved);
          return;
        }
        if (isAllocation(resolved.reference) && resolved.reference.status === 'released') {
          await explainPast(session, resolved.reference);
          return;
        }
        try {
          await explainNode(session, resolved);
        } catch (error) {
          if (!(error instanceof RequestRefused) || error.problem.code !== 'node_not_found') throw error;
          const past = await fetchPastAllocation(session, resolved);
          if (!past) throw error;
          await explainPast(session, past);
        }
      }),
    );
