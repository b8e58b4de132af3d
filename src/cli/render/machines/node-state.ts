/** A node as it stood at a moment. Distances count from then, not from now. */
import type { NodeState } from '../../../contract/node.ts';
import { ageSince, momentAndDistance, momentInFull, relative } from '../text/duration.ts';
import { nodeTones } from '../text/palette.ts';
import { type Fact, type Fit, renderFacts } from '../text/table.ts';
import { printable } from '../text/text.ts';
import { heldFact, wouldHaveFact } from './held.ts';
import { titleLine } from './node.ts';

export function stateLines(state: NodeState, fit: Fit): string[] {
  const thenMs = Date.parse(state.at);
  const { verdict } = state;
  const facts: Fact[] = [
    ['pool', state.pool + (state.zone ? `  zone ${state.zone}` : '')],
    ['allocation', state.allocation_id],
    ['operation', state.workflow_id],
    ['instance', state.node_instance_id],
    ['because', verdict && `${printable(verdict.reason)}  [${verdict.rule}, ${relative(verdict.at, thenMs)}]`],
    ['fenced', state.fenced ? printable(state.fence_reason ?? 'yes') : null, 'warn'],
    ['held', state.held && heldFact(state.held, thenMs), 'warn'],
    ['would have', state.would_have && wouldHaveFact(state.would_have, thenMs), 'warn'],
    ['waits for', state.waiting_for && printable(state.waiting_for)],
    ['deadline', momentAndDistance(state.deadline_at, thenMs)],
    ['registered', momentAndDistance(state.registered_at, thenMs)],
    ['it says', state.reported_status],
    ['upstream', state.observed && `${printable(state.observed.state)}  (seen ${relative(state.observed.at, thenMs)})`],
    ['endpoint', state.endpoint && printable(state.endpoint)],
  ];
  const since = `for ${ageSince(state.status_since, thenMs)}`;
  return [
    titleLine(state.node_id, state.name, state.status, nodeTones[state.status], since, fit),
    fit.paint('quiet', `  As it stood at ${momentInFull(state.at)}, from evidence.`),
    ...renderFacts(facts, fit),
  ];
}
