/**
 * Watches a machine boot until the deadline on the node's row, when the deadline rule decides. It
 * reads the provider's state, the console and the agent's log lines, records diagnoses, and returns
 * a certain crash. It never writes a verdict.
 */
import { now } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import { type Diagnosis, diagnose } from '../../lifecycle/findings/diagnosis.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { readLastLines } from '../../store/logs/node-logs.ts';
import { lockNode } from '../../store/rows/nodes.ts';
import { holdStarting, liftStartingHold } from '../../store/supervision/agentless-machines.ts';
import { type Crash, noteAdvance, readCrash, recordSigns } from '../../store/transitions/advance.ts';
import { amendNode } from '../../store/transitions/amend-node.ts';
import type { NodeMove } from '../../store/transitions/node-move.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { Subject } from '../runtime/subject.ts';

/** Reading the console costs more than reading the state, so it is read less often. */
const readEveryMs = 4_000;

export interface BootstrapWatcher {
  /** Inspects the machine once. Returns a certain crash, which makes further waiting pointless. */
  inspect(subject: Subject): Promise<Crash | undefined>;
}

export function bootstrapWatcher(services: OperationServices, workflow_id: WorkflowId): BootstrapWatcher {
  let readMs = Number.NEGATIVE_INFINITY;
  return {
    async inspect(subject) {
      const at = now(services.clock);
      const { deadline_at } = subject.node;
      if (!deadline_at || at > deadline_at) return undefined;
      // External watchers report the crash of a machine that we did not launch; see
      // boot-failure-report.ts.
      if (!subject.driver.launches) return readCrash(services.db, subject.node_instance_id);
      const observed = await subject.driver.inspect(subject.target);
      // Without an answer from the provider there is no new state to record.
      if (!observed.unseen) await recordObservation(services, subject, observed.state);
      const hasEnded = !observed.present || observed.state === 'exited';
      if (!hasEnded && services.clock.monotonicMs() - readMs < readEveryMs) return undefined;
      readMs = services.clock.monotonicMs();
      const diagnosis = await subject.driver.diagnose(subject.target);
      const lines = await readLastLines(services.db, subject.node_instance_id);
      const sign = diagnose([...diagnosis.attachments.map(({ text }) => text), ...lines].join('\n'));
      const hasCrashed = hasEnded && diagnosis.certain;
      // The diagnosis has the code that the agent left behind, if any.
      const code = diagnosis.code ?? 'machine_crashed';
      const finding: Diagnosis | undefined = hasCrashed
        ? { code: sign?.code ?? code, says: diagnosis.summary, certain: true, line: sign?.line ?? '' }
        : sign;
      if (!finding) return undefined;
      await recordDiagnosis(services, subject, workflow_id, finding);
      // Diagnosing takes time. If the deadline has passed meanwhile, the rule decides.
      if (!finding.certain || now(services.clock) > deadline_at) return undefined;
      const message = hasCrashed ? diagnosis.summary : `${finding.says}: ${finding.line}`;
      return { code: hasCrashed ? code : finding.code, message };
    },
  };
}

/** Records each diagnosis once, even if another replica takes over the watch. */
function recordDiagnosis(
  services: OperationServices,
  subject: Subject,
  workflow_id: WorkflowId,
  { code, says, certain, line }: Diagnosis,
): Promise<void> {
  const at = now(services.clock);
  return services.db.transaction(async (tx) => {
    // A diagnosis is recorded again when it becomes certain: the console may show the error before
    // the provider shows that the machine exited.
    const kind = certain ? 'certain_diagnosis' : 'diagnosis';
    const newSigns = await recordSigns(tx, subject.node_instance_id, [{ kind, code }], at);
    if (newSigns.length === 0) return;
    await recordEvidence(tx, [
      {
        at,
        layer: 'provider',
        kind: 'bootstrap.diagnosis',
        summary: says,
        data: { code, certain, line, watching_until: subject.node.deadline_at },
        ...subject.ids,
        workflow_id,
      },
    ]);
  });
}

/**
 * Records the provider's state on the row and in evidence. A new state counts as an advance of the
 * boot.
 */
async function recordObservation(services: OperationServices, subject: Subject, state: string): Promise<void> {
  if (subject.node.observed_state === state) return;
  const at = now(services.clock);
  await services.db.transaction(async (tx) => {
    const node = await lockNode(tx, subject.node.node_id);
    if (node?.node_instance_id !== subject.node_instance_id || node.observed_state === state) return;
    const observed = { observed_state: state, observed_at: at };
    const summary = `the provider shows it as ${state}`;
    const amended = await amendNode(tx, node, observed, { at, layer: 'provider', kind: 'node.observed', summary });
    await noteAdvance(tx, amended, [{ kind: 'provider_state', code: state }], at, services.environment);
  });
}

/** Promotes an agentless machine when its provider shows it as ready. Idempotent. */
export async function promoteIfReady(services: OperationServices, subject: Subject): Promise<void> {
  const { state, detail, ready, unseen } = await subject.driver.inspect(subject.target);
  const at = now(services.clock);
  if (unseen) return holdStarting(services.db, subject.node, detail ?? 'the machine cannot be seen from this host', at);
  await recordObservation(services, subject, state);
  if (!ready) return liftStartingHold(services.db, subject.node, at);
  const move: NodeMove = {
    node_id: subject.node.node_id,
    node_instance_id: subject.node_instance_id,
    from: ['starting'],
    to: 'ready',
    by: 'upstream-ready',
    reason: `its provider shows it as ${state}${detail ? ` (${detail})` : ''}`,
    set: { reported_status: 'ready' },
  };
  const outcomes = await services.db.transaction((tx) => transition(tx, [move], at, services.environment));
  requireMoved(outcomes, 'already_there', 'status_moved_on', 'instance_fenced', 'observe_only');
}
