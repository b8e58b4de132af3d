/** One sentence about the status of a node. */
import { type NodeStatus, nodeStatuses } from '../model/states.ts';
import { endWords } from './explain.ts';
import type { ExplainedNode } from './explanation.ts';

/** Texts for machines without an agent, whose state is known only from the provider. */
const agentlessMeans: Partial<Record<NodeStatus, string>> = {
  provisioning: 'Coming up; its provider has not finished it yet.',
  starting: 'Its provider has finished it, but does not show it as ready yet.',
  degraded: 'Its provider shows it as unhealthy.',
  offline: 'Its provider does not show it; it can return until its deadline.',
};

export function describeNodeStatus(
  { status, verdict }: Pick<ExplainedNode, 'status' | 'verdict'>,
  { stuck = false, agentless = false, refused = false } = {},
): string {
  if (status === 'failed' && verdict?.certain)
    return `Failed by a verdict: ${endWords(verdict)}, so waiting does not help.`;
  if (status === 'cleaning' && stuck)
    return 'The release of its allocation failed; it stays unavailable until one ends with proof.';
  if (status === 'offline' && refused)
    return 'Its heartbeats arrive but are refused, so it counts as silent; it can return until its deadline.';
  return (agentless && agentlessMeans[status]) || nodeStatuses[status].means;
}
