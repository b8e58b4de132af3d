/** One sentence about the status of a node. */
import { type NodeStatus, nodeStatuses } from '../model/states.ts';
import { endWords } from './explain.ts';
import type { ExplainedNode } from './explanation.ts';

/** Without an agent, only its provider shows its state. */
const agentlessMeans: Partial<Record<NodeStatus, string>> = {
  provisioning: 'Being brought up; its provider has not finished it yet.',
  starting: 'Its provider has finished it and does not show it as ready yet.',
  degraded: 'Its provider shows it, but not as well.',
  offline: 'Its provider does not show it; it may come back until its deadline.',
};

export function nodeMeans(
  { status, verdict }: Pick<ExplainedNode, 'status' | 'verdict'>,
  { stuck = false, agentless = false, refused = false } = {},
): string {
  if (status === 'failed' && verdict?.certain)
    return `Given up by a verdict: ${endWords(verdict)}, and waiting does not bring it back.`;
  if (status === 'cleaning' && stuck)
    return 'The release of its allocation has failed; until one ends with proof, nobody gets it.';
  if (status === 'offline' && refused)
    return 'It beats, and its heartbeats are refused, so it counts as silent; it may come back until its deadline.';
  return (agentless && agentlessMeans[status]) || nodeStatuses[status].means;
}
