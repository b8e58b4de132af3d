/**
 * Ends a release that does not finish. It asks for a proof again, with timeouts. With a proof it
 * ends like any release. Without one the allocation is released anyway, possible remains are
 * recorded as residue, and the node is quarantined.
 */
import { now } from '../../base/clock.ts';
import type { DriverProof, OwnedResource } from '../../drivers/driver.ts';
import { type Json, type OperationContext, type OperationDefinition, StepFailed } from '../../engine/engine.ts';
import { reusesNodes } from '../../lifecycle/model/reuse.ts';
import { fenceInstance, isAgentFresh } from '../../store/agents/instances.ts';
import { runOnce } from '../../store/operations/executions.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { lockNode } from '../../store/rows/nodes.ts';
import { leaveResidue } from '../../store/rows/residue.ts';
import { moveAllocations } from '../../store/transitions/allocation-transition.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import { withTimeout } from '../runtime/bounded-calls.ts';
import type { OperationServices } from '../runtime/services.ts';
import { type PlanStep, stage } from '../runtime/stage.ts';
import {
  idsOf,
  readAllocationOperation,
  readSubject,
  reasonWithoutTeardown,
  type Subject,
} from '../runtime/subject.ts';
import { awaitOtherOperations, fenceNode } from './fence.ts';
import { proofSummary, proveByAgent, proveIfPossible } from './proof.ts';
import { movesWhenClean } from './release-policy.ts';
import { revokeCredential } from './teardown.ts';

export const allocationForceReleaseKind = 'allocation-force-release';

export const allocationForceReleasePlan: PlanStep[] = [
  { name: 'stop', label: 'Ending the running release', usual_seconds: 0.5, within_seconds: 300 },
  { name: 'prove', label: 'Requesting a proof again', usual_seconds: 1, within_seconds: 300 },
  { name: 'settle', label: 'Ending the allocation', usual_seconds: 0.5, within_seconds: 300 },
];

/** The request extends the allocation's deadline to allow this much time for the operation. */
export const forceReleaseWithinSeconds = 600;

const cancelTimeoutSeconds = 30;
const listTimeoutSeconds = 30;
const maxEntries = 100;

/** The resources that may still exist of an instance. */
type Remains = Pick<OwnedResource, 'kind' | 'resource' | 'cost_per_hour'>[];

type ProofOutcome = { proof: DriverProof } | { proof: null; why_not: string; left: Remains };

/** Lists the driver's resources of the instance, or the machine itself if the driver lists none. */
async function listPossibleResidue(
  services: OperationServices,
  { driver, target, node_instance_id }: Subject,
): Promise<Remains> {
  const machine: Remains = [{ kind: 'machine', resource: target.name }];
  const listing = driver.list_owned(target.installation_id).catch(() => undefined);
  const listed = await withTimeout(services.clock, listTimeoutSeconds, listing);
  const resources = listed?.filter((each) => each.node_instance_id === node_instance_id) ?? [];
  return resources.length > 0 ? resources.slice(0, maxEntries) : machine;
}

/** Asks the agent, because only a machine's own agent can prove the machine clean for reuse. */
async function askAgentAgain(
  context: OperationContext,
  services: OperationServices,
  subject: Subject,
): Promise<DriverProof | string> {
  const isFresh = await context.step('prove:heard', () =>
    isAgentFresh(services.db, subject.node_instance_id, now(services.clock)),
  );
  if (!isFresh) return 'its agent is silent and cannot prove it clean';
  try {
    const { proof, problem } = await proveByAgent(
      context,
      services,
      'prove:agent',
      subject,
      { unreachable: false },
      { reuse: true },
    );
    return proof ?? problem?.message ?? 'its agent did not answer in time';
  } catch (error) {
    if (error instanceof StepFailed) return error.message;
    throw error;
  }
}

async function askForProofAgain(
  context: OperationContext,
  services: OperationServices,
  subject: Subject,
): Promise<ProofOutcome> {
  const reuse = reusesNodes(subject.pool);
  const answer = reuse ? await askAgentAgain(context, services, subject) : null;
  if (answer !== null && typeof answer !== 'string') return { proof: answer };
  const shouldAskDriver = subject.driver.launches || !reuse;
  if (shouldAskDriver && subject.driver.final_proof === 'revoked') await revokeCredential(context, services, subject);
  const result = shouldAskDriver ? await proveIfPossible(context, services, 'prove:driver', subject) : null;
  if (result?.proof) return { proof: result.proof };
  const why_not = [answer, result && !result.proof ? result.why_not : null].filter(Boolean).join('; ');
  const left = await context.step('prove:left', async () => (await listPossibleResidue(services, subject)) as Json);
  return { proof: null, why_not, left: left as unknown as Remains };
}

async function endClean(
  tx: Transaction,
  services: OperationServices,
  operation: OperationRow,
  subject: Subject,
  proof: DriverProof,
  at: Date,
): Promise<string> {
  const { node_id } = subject.node;
  const reusedNode = proof.kind === 'clean' ? await lockNode(tx, node_id) : undefined;
  const retirement = { node_id, to: 'retired', by: 'proof', reason: 'proven gone' } as const;
  const moves = reusedNode ? movesWhenClean(reusedNode) : [retirement];
  requireMoved(await transition(tx, moves, at, services.environment), 'already_there');
  if (!reusedNode) {
    const fence = { reason: 'the machine was released', revoke: true, ...idsOf(operation) };
    await fenceInstance(tx, subject.node_instance_id, fence, at);
  }
  return `its machine is ${reusedNode ? 'proven clean' : 'proven gone'}`;
}

const hostOf = ({ driver, target }: Subject): string | null =>
  driver.host_bound
    ? typeof target.state.host_id === 'string'
      ? target.state.host_id
      : (driver.host_id ?? null)
    : null;

async function endWithResidue(
  tx: Transaction,
  services: OperationServices,
  operation: OperationRow,
  subject: Subject,
  { why_not, left }: { why_not: string; left: Remains },
  at: Date,
): Promise<string> {
  const { node, driver, node_instance_id } = subject;
  const request =
    typeof operation.params.reason === 'string' ? operation.params.reason : 'a forced release was requested';
  const reason = `released by force (${request}) without proof: ${why_not}`;
  const source = { actor: operation.actor, workflow_id: operation.workflow_id };
  const quarantine = { node_id: node.node_id, to: 'quarantined', by: 'force-release', reason, ...source } as const;
  requireMoved(await transition(tx, [quarantine], at, services.environment), 'already_there');
  await leaveResidue(
    tx,
    left.map(({ kind, resource, cost_per_hour }) => ({
      driver: driver.name,
      pool: node.pool,
      host: hostOf(subject),
      kind,
      resource,
      node_id: node.node_id,
      node_instance_id,
      ...idsOf(operation),
      reason: request,
      forced_by: operation.actor,
      seen: why_not,
      cost_per_hour: cost_per_hour ?? null,
    })),
    { layer: 'operator', ...source },
    services.clock,
  );
  return reason;
}

/**
 * Updates node, residue and allocation in one transaction, so that no reader sees one without the
 * others.
 */
async function settle(
  context: OperationContext,
  services: OperationServices,
  subject: Subject | undefined,
  outcome: ProofOutcome | undefined,
): Promise<void> {
  await context.step('settle:door', () => {
    const at = now(services.clock);
    return runOnce(services.db, context.workflow_id, 'settle', services.executor, at, async (tx, operation) => {
      const isForced = outcome?.proof === null;
      let reason = await reasonWithoutTeardown(tx, operation);
      if (subject && outcome?.proof) reason = await endClean(tx, services, operation, subject, outcome.proof, at);
      else if (subject && isForced) reason = await endWithResidue(tx, services, operation, subject, outcome, at);
      const move = {
        allocation_id: operation.allocation_id ?? undefined,
        reason,
        actor: operation.actor,
        workflow_id: operation.workflow_id,
      };
      // If the deadline passed meanwhile, the allocation is in `release_failed`. Move it back to
      // `releasing`, from where a proof ends it like any release.
      if (!isForced) {
        const backToReleasing = { ...move, from: ['release_failed'], to: 'releasing', by: 'release' } as const;
        const outcomes = await moveAllocations(tx, [backToReleasing], at, services.environment);
        requireMoved(outcomes, 'status_moved_on', 'already_there');
      }
      const released = await moveAllocations(
        tx,
        [{ ...move, to: 'released', by: isForced ? 'force-release' : 'proof' }],
        at,
        services.environment,
      );
      requireMoved(released, 'already_there');
      return null;
    });
  });
}

const finalMessage = (outcome: ProofOutcome | undefined): string => {
  if (!outcome) return 'Released';
  return outcome.proof ? `Released: ${proofSummary(outcome.proof)}` : `Released without proof: ${outcome.why_not}`;
};

export function allocationForceRelease(services: OperationServices): OperationDefinition {
  return {
    kind: allocationForceReleaseKind,
    revision: 1,
    async run(context) {
      await stage(context, services, 'stop', async () => {
        // A release that ignores its cancellation must not block the forced one.
        await awaitOtherOperations(context, services, 'stop', {
          cancel: true,
          within_seconds: cancelTimeoutSeconds,
        });
        await fenceNode(context, services, 'stop:bar');
      });
      const node_id = await context.step(
        'subject',
        async () => (await readAllocationOperation(services, context)).node_id,
      );
      const operation = await readAllocationOperation(services, context);
      const subject = node_id ? await readSubject(services, services.db, node_id, operation) : undefined;
      let outcome: ProofOutcome | undefined;
      await stage(context, services, 'prove', async () => {
        if (subject) outcome = await askForProofAgain(context, services, subject);
      });
      await stage(context, services, 'settle', () => settle(context, services, subject, outcome));
      await context.emit({ message: finalMessage(outcome) });
      return null;
    },
  };
}
