/**
 * Collects diagnostics from a machine's agent and its provider, and stores them as evidence.
 * Changes nothing else. An agent that does not answer delays the operation by at most one timeout.
 */
import type { OperationDefinition } from '../../engine/engine.ts';
import { isFenced } from '../../lifecycle/model/states.ts';
import { freezeFromAgent, freezeFromDriver } from '../release/freeze-evidence.ts';
import type { AgentContact } from '../runtime/agent-task.ts';
import type { OperationServices } from '../runtime/services.ts';
import { type PlanStep, stage } from '../runtime/stage.ts';
import { readSubjectWithParamsAllocation } from '../runtime/subject.ts';

export const nodeDiagnoseKind = 'node-diagnose';

const nodeDiagnosePlan: PlanStep[] = [
  { name: 'ask-agent', label: 'Asking its agent', usual_seconds: 0.5, within_seconds: 60 },
  { name: 'ask-provider', label: 'Asking its provider', usual_seconds: 0.5, within_seconds: 120 },
];

export const diagnoseQuestion = { kind: nodeDiagnoseKind, revision: 1, steps: nodeDiagnosePlan };

const resultMessage = (agent: boolean, provider: boolean): string => {
  if (agent && provider) return 'Diagnostics of its agent and its provider were stored';
  if (agent) return 'Diagnostics of its agent were stored; its provider returned nothing';
  return provider
    ? 'Diagnostics of its provider were stored; its agent is silent'
    : 'No diagnostics: its agent is silent, and its provider returned nothing';
};

export function nodeDiagnose(services: OperationServices): OperationDefinition {
  return {
    kind: nodeDiagnoseKind,
    revision: 1,
    async run(context) {
      const subject = await readSubjectWithParamsAllocation(services, context);
      const contact: AgentContact = { unreachable: false };
      const stored = { agent: false, provider: false };
      // A fenced node gets only tasks of its teardown, such as `release.freeze`.
      const type = isFenced(subject.node.status) ? 'release.freeze' : 'diagnostics.collect';
      await stage(context, services, 'ask-agent', async () => {
        stored.agent = await freezeFromAgent(context, services, 'ask-agent:agent', subject, contact, type);
      });
      await stage(context, services, 'ask-provider', async () => {
        stored.provider = await freezeFromDriver(context, services, 'ask-provider', subject);
      });
      await context.emit({ message: resultMessage(stored.agent, stored.provider) });
      return null;
    },
  };
}
