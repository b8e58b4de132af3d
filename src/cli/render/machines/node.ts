/** Renders nodes as table columns, one node in full, and one node at an earlier moment. */
import type { Node, NodeState } from '../../../contract/node.ts';
import type { Explanation } from '../../../contract/supervision/explanation.ts';
import { displayOccupancy, nodeStatuses } from '../../../lifecycle/model/states.ts';
import {
  type FailedRelease,
  failedReleaseConcern,
  isReleaseFailed,
  nextTrySentence,
} from '../allocations/release-failure.ts';
import {
  formatAge,
  formatAgeSince,
  formatMoment,
  formatRelative,
  momentInFull,
  secondsSince,
} from '../text/duration.ts';
import { nodeTones, type Tone } from '../text/palette.ts';
import { type Column, type Fact, type Fit, renderFacts } from '../text/table.ts';
import { printable } from '../text/text.ts';
import { heldConcern, heldFact, wouldHaveConcern, wouldHaveFact } from './held.ts';

/** A verdict explains these statuses. In any other status, the verdict is outdated. */
const explainedByVerdict = new Set<Node['status']>(['offline', 'failed', 'degraded', 'quarantined', 'draining']);

/**
 * Returns why a node has its status, if that needs explaining. A failed release comes before the
 * deadline, which it makes stale.
 */
export function nodeConcern(node: Node, nowMs: number, failed?: FailedRelease): string {
  if (node.held) return heldConcern(node.held);
  if (node.would_have) return wouldHaveConcern(node.would_have);
  if (failed && node.status === 'cleaning') return failedReleaseConcern(failed, nowMs);
  if (explainedByVerdict.has(node.status) && node.verdict) return printable(node.verdict.reason);
  const deadline = node.deadline_at;
  const secondsLeft = deadline ? -secondsSince(deadline, nowMs) : null;
  return [
    node.waiting_for && `waits for ${printable(node.waiting_for)}`,
    secondsLeft !== null && (secondsLeft > 0 ? `${formatAge(secondsLeft)} left` : 'overdue'),
  ]
    .filter(Boolean)
    .join(', ');
}

/** Marks a held verdict as a warning: the status may not be true. */
export const nodeTone = ({ status, held }: Node): Tone => (held ? 'warn' : nodeTones[status]);

export const nodeColumns = (nowMs: number, failedReleases: ReadonlyMap<string, FailedRelease>): Column<Node>[] => [
  { title: 'NODE', value: (node) => node.node_id },
  { title: 'NAME', value: (node) => node.name, shrinks_to: 8, drop: 3 },
  { title: 'POOL', value: (node) => node.pool, shrinks_to: 6, drop: 2 },
  { title: 'STATUS', value: (node) => node.status, tone: nodeTone },
  { title: 'FOR', value: (node) => formatAgeSince(node.status_since, nowMs), align: 'right' },
  { title: 'SEEN', value: (node) => formatAgeSince(node.last_seen_at, nowMs), align: 'right', drop: 6 },
  { title: 'USE', value: (node) => displayOccupancy(node) ?? '', drop: 7 },
  {
    title: 'WHY',
    value: (node) => nodeConcern(node, nowMs, failedReleases.get(node.allocation_id ?? '')),
    drop: 5,
    below: true,
    optional: true,
  },
  { title: 'ALLOCATION', value: (node) => node.allocation_id ?? '', drop: 9, optional: true },
  { title: 'ZONE', value: (node) => node.zone ?? '', drop: 8, optional: true },
];

/** Renders the node's own report, which may have any fields. */
const reportText = (reported: Node['reported']) =>
  reported &&
  Object.entries(reported)
    .map(([key, value]) => `${key} ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ');

export const labelText = (labels: Record<string, string>): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(', ');

export const titleLine = (id: string, name: string | null, status: string, tone: Tone, since: string, { paint }: Fit) =>
  `${paint('strong', id)}${name ? `  ${printable(name)}` : ''}  ${paint(tone, status)} ${since}`;

/** Returns the name of the actor that set the status, if any. */
const statusActor = ({ because, status }: Explanation): string | null =>
  because.evidence.find(({ kind }) => kind === `node.${status}`)?.actor?.name ?? null;

export function nodeLines(node: Node, explanation: Explanation, nowMs: number, fit: Fit): string[] {
  const { because, holder } = explanation;
  const failed = holder && isReleaseFailed(holder) ? holder : null;
  const by = statusActor(explanation);
  const budget = node.budget_seconds === null ? '' : ` · budget ${node.budget_seconds} s from ${node.budget_source}`;
  const facts: Fact[] = [
    ['pool', node.pool + (node.zone ? `  zone ${node.zone}` : '')],
    ['use', displayOccupancy(node)],
    ['allocation', node.allocation_id],
    ['operation', node.workflow_id],
    ['instance', node.node_instance_id],
    [
      'because',
      because.verdict && `${printable(because.verdict)}  [${because.rule}, ${formatRelative(because.at, nowMs)}]`,
    ],
    ['by', by && printable(by)],
    ['release', failed && failedReleaseConcern({ ...failed, retry_at: null }, nowMs), 'bad'],
    ['owner', because.owner],
    ['next try', failed && nextTrySentence(failed, nowMs)],
    ['fenced', node.fenced ? printable(node.fence_reason ?? 'yes') : null, 'warn'],
    ['held', node.held && heldFact(node.held, nowMs), 'warn'],
    ['would have', node.would_have && wouldHaveFact(node.would_have, nowMs), 'warn'],
    ['waits for', node.waiting_for && printable(node.waiting_for)],
    ['deadline', explanation.deadline_at && formatMoment(explanation.deadline_at, nowMs) + budget],
    ['agent', node.agent_version && printable(node.agent_version)],
    ['last seen', formatMoment(node.last_seen_at, nowMs)],
    ['registered', formatMoment(node.registered_at, nowMs)],
    ['report', reportText(node.reported) && printable(reportText(node.reported) ?? '')],
    [
      'upstream',
      node.observed && `${printable(node.observed.state)}  (seen ${formatRelative(node.observed.at, nowMs)})`,
    ],
    ['endpoint', node.endpoint && printable(node.endpoint)],
    ['restarts', node.restarts > 0 ? String(node.restarts) : null],
    ['labels', printable(labelText(node.labels))],
    ['created', formatMoment(node.created_at, nowMs)],
  ];
  const since = `for ${formatAgeSince(node.status_since, nowMs)}`;
  return [
    titleLine(node.node_id, node.name, node.status, nodeTones[node.status], since, fit),
    fit.paint('quiet', `  ${nodeStatuses[node.status].means}`),
    ...renderFacts(facts, fit),
  ];
}

/** Renders a node at an earlier moment. Ages and deadlines are relative to that moment. */
export function stateLines(state: NodeState, fit: Fit): string[] {
  const thenMs = Date.parse(state.at);
  const { verdict } = state;
  const facts: Fact[] = [
    ['pool', state.pool + (state.zone ? `  zone ${state.zone}` : '')],
    ['allocation', state.allocation_id],
    ['operation', state.workflow_id],
    ['instance', state.node_instance_id],
    ['because', verdict && `${printable(verdict.reason)}  [${verdict.rule}, ${formatRelative(verdict.at, thenMs)}]`],
    ['fenced', state.fenced ? printable(state.fence_reason ?? 'yes') : null, 'warn'],
    ['held', state.held && heldFact(state.held, thenMs), 'warn'],
    ['would have', state.would_have && wouldHaveFact(state.would_have, thenMs), 'warn'],
    ['waits for', state.waiting_for && printable(state.waiting_for)],
    ['deadline', formatMoment(state.deadline_at, thenMs)],
    ['registered', formatMoment(state.registered_at, thenMs)],
    ['report', state.reported_status],
    [
      'upstream',
      state.observed && `${printable(state.observed.state)}  (seen ${formatRelative(state.observed.at, thenMs)})`,
    ],
    ['endpoint', state.endpoint && printable(state.endpoint)],
  ];
  const since = `for ${formatAgeSince(state.status_since, thenMs)}`;
  return [
    titleLine(state.node_id, state.name, state.status, nodeTones[state.status], since, fit),
    fit.paint('quiet', `  At ${momentInFull(state.at)}, from evidence.`),
    ...renderFacts(facts, fit),
  ];
}
