/**
 * Collects evidence from the machine before it is destroyed. If that fails, the operation
 * continues, and the gap is recorded as `evidence.missing`.
 */
import { now } from '../../base/clock.ts';
import type { Diagnosis } from '../../drivers/driver.ts';
import type { OperationContext } from '../../engine/engine.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { hasServedAnother } from '../../store/rows/allocations.ts';
import { attachLateCause } from '../../store/transitions/late-cause.ts';
import { type AgentContact, askAgent } from '../runtime/agent-task.ts';
import { retryWhileUnavailable } from '../runtime/bounded-calls.ts';
import type { OperationServices } from '../runtime/services.ts';
import { recordFact } from '../runtime/stage.ts';
import type { Subject } from '../runtime/subject.ts';

const agentTimeoutSeconds = 5;
const maxAttachmentCharacters = 64_000;

/**
 * A machine's logs may be older than its allocation. If the machine served another allocation
 * before, only fleet operators may read the logs, so that no tenant sees lines of a former tenant.
 */
async function limitVisibility(services: OperationServices, subject: Subject): Promise<Subject> {
  const { node_id } = subject.node;
  const { allocation_id } = subject.ids;
  if (!allocation_id) return subject;
  if (!(await retryWhileUnavailable(services.clock, () => hasServedAnother(services.db, node_id, allocation_id))))
    return subject;
  return { ...subject, ids: { ...subject.ids, allocation_id: null } };
}

export async function freezeFromAgent(
  context: OperationContext,
  services: OperationServices,
  name: string,
  subject: Subject,
  contact: AgentContact,
  type: 'release.freeze' | 'diagnostics.collect' = 'release.freeze',
): Promise<boolean> {
  // The result also appears in the task's evidence, which must have the same visibility.
  const limitedSubject = await limitVisibility(services, subject);
  const answer = await askAgent(context, services, name, limitedSubject, contact, {
    type,
    wait_seconds: agentTimeoutSeconds,
  });
  const problem =
    answer === undefined
      ? 'its agent is silent'
      : answer.status === 'unanswered'
        ? 'its agent did not answer in time'
        : answer.error?.message;
  if (answer?.status === 'succeeded')
    await recordFact(
      context,
      services,
      `${name}:kept`,
      limitedSubject,
      'node',
      'evidence.frozen',
      'diagnostics of the agent were stored',
      answer.result ?? {},
    );
  else
    await recordFact(
      context,
      services,
      `${name}:missing`,
      subject,
      'workflow',
      'evidence.missing',
      `the agent returned no diagnostics: ${problem ?? 'it refused'}`,
      {},
    );
  return answer?.status === 'succeeded';
}

export async function freezeFromDriver(
  context: OperationContext,
  services: OperationServices,
  name: string,
  subject: Subject,
): Promise<boolean> {
  return context.step(`${name}:driver`, async () => {
    const at = now(services.clock);
    const ids = { ...(await limitVisibility(services, subject)).ids, workflow_id: context.workflow_id };
    const diagnosis = await subject.driver.diagnose(subject.target).catch((error: unknown) => String(error));
    if (typeof diagnosis === 'string') {
      const summary = `the provider returned no diagnostics: ${diagnosis}`;
      await recordEvidence(services.db, [{ at, layer: 'workflow', kind: 'evidence.missing', summary, ...ids }]);
      return false;
    }
    const attachments = diagnosis.attachments.map((each) => ({
      name: each.name,
      text: each.text.slice(-maxAttachmentCharacters),
    }));
    await recordEvidence(services.db, [
      {
        at,
        layer: 'provider',
        kind: 'evidence.frozen',
        summary: diagnosis.summary,
        data: { certain: diagnosis.certain, attachments },
        ...ids,
      },
    ]);
    await recordLateCause(services, subject, diagnosis);
    return true;
  });
}

/** Adds a certain cause to an earlier verdict without one. Returns false if nothing was added. */
export async function recordLateCause(
  { db, clock }: Pick<OperationServices, 'db' | 'clock'>,
  { node, node_instance_id }: Subject,
  { certain, code = 'machine_crashed', summary: message }: Diagnosis,
): Promise<boolean> {
  if (!certain) return false;
  const cause = { node_id: node.node_id, node_instance_id, code, message };
  return db.transaction((tx) => attachLateCause(tx, cause, now(clock)));
}
