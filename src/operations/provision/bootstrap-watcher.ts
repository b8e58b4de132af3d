/**
 * Watches a machine come up, exactly as long as the rules wait for it: its window is the deadline on the node's row, whoever
 * moved it. It reads what the provider sees, console output, the agent's lines; it attaches what it finds as a diagnosis, and
 * ends the operation early when a crash is certain. It never writes a verdict.
 */
import { now } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import { type Finding, readSigns } from '../../lifecycle/findings/diagnosis.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { lastLines } from '../../store/logs/node-logs.ts';
import { type Crash, markedCrash, markSigns } from '../../store/transitions/advance.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { Subject } from '../runtime/subject.ts';
import { keepObservation } from './keep-observation.ts';

/** Reading a console is dearer than looking whether something runs. */
const readEveryMs = 4_000;

export interface BootstrapWatcher {
  /** Looks once; answers the crash that makes waiting pointless. */
  look(subject: Subject): Promise<Crash | undefined>;
}

export function bootstrapWatcher(services: OperationServices, workflow_id: WorkflowId): BootstrapWatcher {
  let readMs = Number.NEGATIVE_INFINITY;
  return {
    async look(subject) {
      const at = now(services.clock);
      const { deadline_at } = subject.node;
      if (!deadline_at || at > deadline_at) return undefined;
      // Of a machine that others bring, only others can tell that it crashed.
      if (!subject.driver.launches) return markedCrash(services.db, subject.node_instance_id);
      const observed = await subject.driver.observe(subject.target);
      // A provider that cannot be asked has shown nothing, and nothing new.
      if (!observed.unseen) await keepObservation(services, subject, observed.state);
      const gone = !observed.present || observed.state === 'exited';
      if (!gone && services.clock.monotonicMs() - readMs < readEveryMs) return undefined;
      readMs = services.clock.monotonicMs();
      const diagnosis = await subject.driver.diagnose(subject.target);
      const lines = await lastLines(services.db, subject.node_instance_id);
      const sign = readSigns([...diagnosis.attachments.map(({ text }) => text), ...lines].join('\n'));
      const crashed = gone && diagnosis.certain;
      // Its own word for its end, where it left one; that it crashed is all that others can say.
      const code = diagnosis.code ?? 'machine_crashed';
      const finding: Finding | undefined = crashed
        ? { code: sign?.code ?? code, says: diagnosis.summary, certain: true, line: sign?.line ?? '' }
        : sign;
      if (!finding) return undefined;
      await attach(services, subject, workflow_id, finding);
      // Looking takes its time. What is found after the deadline explains the rule's verdict; it does not forestall it.
      if (!finding.certain || now(services.clock) > deadline_at) return undefined;
      const shown = crashed ? diagnosis.summary : `${finding.says}: ${finding.line}`;
      return { code: crashed ? code : finding.code, message: shown };
    },
  };
}

/** Each finding is told once, also by a replica that goes on with the watch. */
function attach(
  services: OperationServices,
  subject: Subject,
  workflow_id: WorkflowId,
  { code, says, certain, line }: Finding,
): Promise<void> {
  const at = now(services.clock);
  return services.db.transaction(async (tx) => {
    // Certainty is news of its own: the same words may have been read before the machine's end was seen.
    const kind = certain ? 'certain_diagnosis' : 'diagnosis';
    const fresh = await markSigns(tx, subject.node_instance_id, [{ kind, code }], at);
    if (fresh.length === 0) return;
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
