/** Nodes as a person reads them. */

import type { Node } from '../../../contract/node.ts';
import type { Explanation } from '../../../contract/supervision/explanation.ts';
import { nodeStatuses, shownOccupancy } from '../../../lifecycle/model/states.ts';
import {
  type FailedRelease,
  failedReleaseConcern,
  isReleaseFailed,
  nextTrySentence,
} from '../allocations/release-failure.ts';
import { age, ageSince, momentAndDistance, relative, secondsSince } from '../text/duration.ts';
import { nodeTones, type Tone } from '../text/palette.ts';
import { type Column, type Fact, type Fit, renderFacts } from '../text/table.ts';
import { printable } from '../text/text.ts';
import { heldConcern, heldFact, wouldHaveConcern, wouldHaveFact } from './held.ts';

/** Statuses that a verdict explains; elsewhere an old verdict is history. */
const explained = new Set<Node['status']>(['offline', 'failed', 'degraded', 'quarantined', 'draining']);

/**
 * Why it stands where it stands, where that needs a word. Of one whose release failed that is what failed: its deadline is that
 * of a try which is over.
 */
export function nodeConcern(node: Node, nowMs: number, failed?: FailedRelease): string {
  if (node.held) return heldConcern(node.held);
  if (node.would_have) return wouldHaveConcern(node.would_have);
  if (failed && node.status === 'cleaning') return failedReleaseConcern(failed, nowMs);
  if (explained.has(node.status) && node.verdict) return printable(node.verdict.reason);
  const deadline = node.deadline_at;
  const left = deadline ? -secondsSince(deadline, nowMs) : null;
  return [
    node.waiting_for && `waits for ${printable(node.waiting_for)}`,
    left !== null && (left > 0 ? `${age(left)} left` : 'overdue'),
  ]
    .filter(Boolean)
    .join(', ');
}

/** A machine whose verdict is held back is not as well as its status says. */
export const nodeTone = ({ status, held }: Node): Tone => (held ? 'warn' : nodeTones[status]);

export const nodeColumns = (nowMs: number, failedReleases: ReadonlyMap<string, FailedRelease>): Column<Node>[] => [
  { title: 'NODE', value: (node) => node.node_id },
  { title: 'NAME', value: (node) => node.name, shrinks_to: 8, drop: 3 },
  { title: 'POOL', value: (node) => node.pool, shrinks_to: 6, drop: 2 },
  { title: 'STATUS', value: (node) => node.status, tone: nodeTone },
  { title: 'FOR', value: (node) => ageSince(node.status_since, nowMs), align: 'right' },
  { title: 'SEEN', value: (node) => ageSince(node.last_seen_at, nowMs), align: 'right', drop: 6 },
  { title: 'USE', value: (node) => shownOccupancy(node) ?? '', drop: 7 },
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

/** `reported` is the node's own word and may hold anything. */
const claims = (reported: Node['reported']) =>
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

/** Who brought it where it stands, where that was a person. */
const setBy = ({ because, status }: Explanation): string | null =>
  because.evidence.find(({ kind }) => kind === `node.${status}`)?.actor?.name ?? null;

export function nodeLines(node: Node, told: Explanation, nowMs: number, fit: Fit): string[] {
  const failed = told.holder && isReleaseFailed(told.holder) ? told.holder : null;
  const by = setBy(told);
  const budget = node.budget_seconds === null ? '' : ` · budget ${node.budget_seconds} s from ${node.budget_source}`;
  const facts: Fact[] = [
    ['pool', node.pool + (node.zone ? `  zone ${node.zone}` : '')],
    ['use', shownOccupancy(node)],
    ['allocation', node.allocation_id],
    ['operation', node.workflow_id],
    ['instance', node.node_instance_id],
    [
      'because',
      told.because.verdict &&
        `${printable(told.because.verdict)}  [${told.because.rule}, ${relative(told.because.at, nowMs)}]`,
    ],
    ['by', by && printable(by)],
    ['release', failed && failedReleaseConcern({ ...failed, retry_at: null }, nowMs), 'bad'],
    ['owner', told.because.owner],
    ['next try', failed && nextTrySentence(failed, nowMs)],
    ['fenced', node.fenced ? printable(node.fence_reason ?? 'yes') : null, 'warn'],
    ['held', node.held && heldFact(node.held, nowMs), 'warn'],
    ['would have', node.would_have && wouldHaveFact(node.would_have, nowMs), 'warn'],
    ['waits for', node.waiting_for && printable(node.waiting_for)],
    ['deadline', told.deadline_at && momentAndDistance(told.deadline_at, nowMs) + budget],
    ['last seen', momentAndDistance(node.last_seen_at, nowMs)],
    ['registered', momentAndDistance(node.registered_at, nowMs)],
    ['it says', claims(node.reported) && printable(claims(node.reported) ?? '')],
    ['upstream', node.observed && `${printable(node.observed.state)}  (seen ${relative(node.observed.at, nowMs)})`],
    ['endpoint', node.endpoint && printable(node.endpoint)],
    ['restarts', node.restarts > 0 ? String(node.restarts) : null],
    ['labels', printable(labelText(node.labels))],
    ['created', momentAndDistance(node.created_at, nowMs)],
  ];
  const since = `for ${ageSince(node.status_since, nowMs)}`;
  return [
    titleLine(node.node_id, node.name, node.status, nodeTones[node.status], since, fit),
    fit.paint('quiet', `  ${nodeStatuses[node.status].means}`),
    ...renderFacts(facts, fit),
  ];
}
