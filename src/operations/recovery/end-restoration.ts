/**
 * Ends a restoration, after which the servers act again. First, nodes that an unknown tenant may
 * use are quarantined, and everything that would release or tear down their machines is stopped.
 */
import { now } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { RestorationEndRequest } from '../../contract/supervision/restoration.ts';
import type { AllocationStatus } from '../../lifecycle/model/states.ts';
import { withdrawTasks } from '../../store/agents/tasks.ts';
import {
  type ContestedNode,
  countDifferences,
  isComparing,
  lockContestedNodes,
} from '../../store/backup/restoration-differences.ts';
import { closeRestoration, lockOpenRestoration, type RestorationRow } from '../../store/backup/restorations.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { listOpenOfKind, listOpenOperationsOn } from '../../store/operations/open-operations.ts';
import { markCancelling } from '../../store/operations/operations.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { listUnreleasedOn } from '../../store/rows/allocations.ts';
import { settleResidue } from '../../store/rows/residue.ts';
import { moveDeadlinesAfterRestore } from '../../store/supervision/ingest-gaps.ts';
import { type AllocationMove, moveAllocations } from '../../store/transitions/allocation-transition.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import type { Caller } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import { fleetRecoverKind } from './fleet-recover.ts';

const batch = 500;
const reason = 'the database was restored, and its machine may serve a tenant that is not recorded';

/**
 * Ends the allocations whose release would reach the machine of an unknown tenant: every allocation
 * on a machine that has changed hands; on other machines, only those that were being released. An
 * active allocation on an unconfirmed machine stays, because it may be right.
 */
async function endAllocations(
  tx: Transaction,
  { environment }: OperationServices,
  nodes: readonly ContestedNode[],
  { actor, correlation_id }: Caller,
  at: Date,
): Promise<void> {
  const changedHands = new Map(nodes.map(({ node_id, changed_hands }) => [node_id, changed_hands]));
  const allocations = (
    await listUnreleasedOn(
      tx,
      nodes.map(({ node_id }) => node_id),
    )
  ).filter(
    ({ node_id, status }) =>
      ['releasing', 'release_failed'].includes(status) || (node_id !== null && changedHands.get(node_id)),
  );
  const moveTo = (to: 'releasing' | 'released', by: 'release' | 'force-release', from: AllocationStatus[]) =>
    allocations
      .filter(({ status }) => from.includes(status))
      .map(({ allocation_id }): AllocationMove => ({ allocation_id, to, by, reason, actor, correlation_id }));
  const held: AllocationStatus[] = ['provisioning', 'active', 'failed'];
  requireMoved(await moveAllocations(tx, moveTo('releasing', 'release', held), at, environment));
  const all: AllocationStatus[] = [...held, 'releasing', 'release_failed'];
  requireMoved(await moveAllocations(tx, moveTo('released', 'force-release', all), at, environment));
}

/** Stops the work that the restored rows have planned for these nodes before it reaches them. */
async function stopPlans(tx: Transaction, nodes: readonly ContestedNode[], { actor }: Caller, at: Date): Promise<void> {
  const ids = nodes.map(({ node_id }) => node_id);
  // No replica runs these operations now. The one that takes them over finds them cancelled.
  for (const { workflow_id } of await listOpenOperationsOn(tx, ids)) await markCancelling(tx, workflow_id, at, actor);
  const instances = nodes.flatMap(({ node_instance_id }) => (node_instance_id ? [{ node_instance_id, reason }] : []));
  await withdrawTasks(tx, instances, at);
  // The sweep `orphans` would ask the agent to clean the machine.
  for (const { node_instance_id } of instances)
    await settleResidue(tx, { node_instance_id }, { status: 'adopted', reason }, { layer: 'operator', actor }, at);
}

async function quarantine(
  tx: Transaction,
  { environment }: OperationServices,
  nodes: readonly ContestedNode[],
  { actor, correlation_id }: Caller,
  at: Date,
): Promise<void> {
  const moves = nodes
    .filter(({ status }) => status !== 'quarantined')
    .map(({ node_id, status }) => ({
      ...{ node_id, from: [status], to: 'quarantined' as const, by: 'quarantine' as const, reason },
      ...{ actor, correlation_id },
    }));
  requireMoved(await transition(tx, moves, at, environment));
}

/** Handles the contested nodes in pages, to bound the statements. Returns how many there were. */
async function secureContested(
  tx: Transaction,
  services: OperationServices,
  restoration: RestorationRow,
  { trust_free = false, trust_unconfirmed = false }: RestorationEndRequest,
  caller: Caller,
  at: Date,
): Promise<number> {
  let count = 0;
  for (let after = ''; ; ) {
    const nodes = await lockContestedNodes(tx, restoration, { trust_free, trust_unconfirmed }, { after, limit: batch });
    await stopPlans(tx, nodes, caller, at);
    await quarantine(tx, services, nodes, caller, at);
    await endAllocations(tx, services, nodes, caller, at);
    count += nodes.length;
    const last = nodes.at(-1);
    if (!last || nodes.length < batch) return count;
    after = last.node_id;
  }
}

export function endRestoration(
  services: OperationServices,
  request: RestorationEndRequest,
  caller: Caller,
): Promise<{ ended_at: Date; quarantined: number }> {
  const { db, clock } = services;
  const { trust_free = false, trust_unconfirmed = false, force = false } = request;
  const { actor, correlation_id } = caller;
  return db.transaction(async (tx) => {
    const at = now(clock);
    const restoration = await lockOpenRestoration(tx);
    if (!restoration) throw new ApiProblem('action_illegal', 'No restoration is open; the servers act.');
    if (!force && (await isComparing(tx, restoration, at)))
      throw new ApiProblem(
        'action_illegal',
        'Not every machine has been compared with its row yet. `slipway sweeps` shows whether restored-machines fails. To end the restoration anyway, use --force.',
      );
    const differences = await countDifferences(tx, restoration);
    const quarantined = await secureContested(tx, services, restoration, request, caller, at);
    // A bulk recovery names no nodes, so it would act on nodes that were just quarantined.
    for (const { workflow_id } of await listOpenOfKind(tx, fleetRecoverKind))
      await markCancelling(tx, workflow_id, at, actor);
    const { restoration_id, remembers_until, began_at } = restoration;
    await moveDeadlinesAfterRestore(tx, remembers_until ?? began_at, at);
    await closeRestoration(tx, { restoration_id, actor, reason: request.reason }, at);
    const data = {
      restoration_id,
      reason: request.reason,
      trust_free,
      trust_unconfirmed,
      force,
      differences,
      quarantined,
    };
    const summary = `the servers act again after the restore; ${quarantined} nodes are quarantined`;
    await recordEvidence(tx, [{ at, layer: 'store', kind: 'restoration.ended', summary, data, actor, correlation_id }]);
    return { ended_at: at, quarantined };
  });
}
