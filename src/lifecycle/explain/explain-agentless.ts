/**
 * Explanations that differ for agentless machines: only the provider shows their state, and nothing
 * reports their error rate.
 */
import type { NodeStatus } from '../model/states.ts';
import { byRule, type ExplainFacts, type Explanation, type NextStep } from './explanation.ts';

type AgentlessExplainer = (facts: ExplainFacts, silent_at: Date | null) => Explanation;

const absenceStep = (at: Date | null): NextStep => ({
  if: 'its provider answers but does not show it until then',
  ...byRule('offline', 'liveness'),
  at,
});

export const agentlessExplainers: Partial<Record<NodeStatus, AgentlessExplainer>> = {
  provisioning: ({ node, operation }) => ({
    waiting_for: operation ?? 'its provider to finish it',
    next: [
      { if: 'its provider has finished it', leads_to: 'starting', at: null },
      { if: 'it is not finished by then', ...byRule('failed', 'provision-deadline'), at: node.deadline_at },
    ],
  }),
  ready: (_, silent_at) => ({
    waiting_for: null,
    next: [
      { if: 'its provider shows it as unhealthy', leads_to: 'degraded', at: null, by: 'degraded' },
      absenceStep(silent_at),
    ],
  }),
  degraded: (_, silent_at) => ({
    waiting_for: 'its provider to show it as healthy again',
    next: [
      { if: 'its provider shows it as healthy again', leads_to: 'ready', at: null, by: 'degraded' },
      absenceStep(silent_at),
    ],
  }),
};
