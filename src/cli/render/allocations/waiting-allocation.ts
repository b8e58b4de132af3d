/** Renders an allocation that waits for a machine: why none is free, and what you can do. */
import type { Allocation } from '../../../contract/allocation.ts';
import type { FleetCounts } from '../../../contract/fleet/fleet.ts';
import type { Pool } from '../../../contract/pool.ts';
import type { Offer } from '../../../lifecycle/actions/action-table.ts';
import type { AllocationActionName } from '../../../lifecycle/actions/allocation-actions.ts';
import type { NodeStatus } from '../../../lifecycle/model/states.ts';
import { availableActionLines } from '../machines/actions.ts';
import { paragraph, section, toReadable, waitingSentence } from '../machines/explanation.ts';
import { titleLine } from '../machines/node.ts';
import { formatAgeSince, formatRelative, momentInFull, secondsSince } from '../text/duration.ts';
import { type Hint, hintLines, type RenderContext } from '../text/hints.ts';
import { allocationTones } from '../text/palette.ts';
import { endSentence, printable } from '../text/text.ts';

/** The pool with its counts; `hidden` if the token may not read it, `deleted` if it is gone. */
export type PoolCapacity = { pool: Pool; counts: FleetCounts['items'] } | 'hidden' | 'deleted';

export interface WaitingFacts {
  capacity: PoolCapacity;
  actions: Offer<AllocationActionName>[];
}

/** Ready nodes are counted as held or free instead, and retired ones are not counted. */
const statusWords: Partial<Record<NodeStatus, string>> = {
  provisioning: 'being brought up',
  starting: 'starting',
  degraded: 'degraded',
  offline: 'offline',
  draining: 'draining',
  cleaning: 'being cleaned',
  failed: 'failed',
  quarantined: 'quarantined',
};

const countPhrase = (count: number, words: string) =>
  count > 0 ? [`${count} ${count === 1 ? 'is' : 'are'} ${words}`] : [];

function capacitySentence(pool: Pool, counts: FleetCounts['items']): string {
  const countInStatus = (...wanted: NodeStatus[]) =>
    counts
      .filter(({ pool: poolName, status }) => poolName === pool.name && wanted.includes(status))
      .reduce((sum, { nodes }) => sum + nodes, 0);
  const { live, free } = pool.nodes;
  if (live === 0) return `Pool ${pool.name} has no machine.`;
  const parts = [
    ...countPhrase(Math.max(0, countInStatus('ready') - free), 'held by other allocations'),
    ...Object.entries(statusWords).flatMap(([status, words]) =>
      countPhrase(countInStatus(status as NodeStatus), words),
    ),
    // These are free, but this allocation cannot use them; `slipway node` shows why.
    ...countPhrase(free, 'free, but with residue, or reserved for an earlier request'),
  ];
  const size = live === 1 ? '1 machine' : `${live} machines`;
  return `Pool ${pool.name} has ${size}${parts.length > 0 ? `: ${parts.join(', ')}` : ''}.`;
}

interface PoolText {
  text: string;
  hints: Hint[];
}

/** Says whether the pool will get more machines, and how. */
function growthText({ name, driver, paused, max_nodes, nodes }: Pool, { commandLine }: RenderContext): PoolText {
  const applyCommand = commandLine('apply', '-f', 'pools.yaml');
  if (driver === 'external')
    return {
      text: 'Slipway does not launch machines for this pool: a machine must join, or an allocation must be released.',
      hints: [['Let a machine join', commandLine('join-token', 'create', name)]],
    };
  if (paused)
    return {
      text: 'The pool is paused, so no new machine is launched.',
      hints: [['Unpause the pool (paused: false)', applyCommand]],
    };
  if (max_nodes !== undefined && nodes.live >= max_nodes)
    return {
      text: `The pool may have at most ${max_nodes} (max_nodes): release an allocation, or raise the limit.`,
      hints: [['Raise max_nodes', applyCommand]],
    };
  return {
    text: 'There is room for a new machine. Slipway launches it in turn, unless the brake holds launches back.',
    hints: [['See whether the brake holds launches back', commandLine('brake')]],
  };
}

function poolText(allocation: Allocation, capacity: PoolCapacity, context: RenderContext): PoolText {
  const { commandLine } = context;
  const name = printable(allocation.pool);
  if (capacity === 'hidden')
    return {
      text: `Your token may not read pool ${name}; ask an operator if the wait is long.`,
      hints: [],
    };
  if (capacity === 'deleted')
    return {
      text: `Pool ${name} no longer exists.`,
      hints: [['Declare the pool again', commandLine('apply', '-f', 'pools.yaml')]],
    };
  const growth = growthText(capacity.pool, context);
  return {
    text: `${capacitySentence(capacity.pool, capacity.counts)} ${growth.text}`,
    hints: [
      ...growth.hints,
      ['See the machines of the pool', commandLine('nodes', '--pool', name)],
      ['See the allocations of the pool', commandLine('allocations', '--pool', name)],
    ],
  };
}

function deadlineSentence({ deadline_at }: Allocation, nowMs: number): string {
  if (!deadline_at) return '';
  const when = secondsSince(deadline_at, nowMs) < 0 ? formatRelative(deadline_at, nowMs) : 'now';
  return `Without a machine it fails ${when}, at ${momentInFull(deadline_at)}.`;
}

export function waitingAllocationLines(
  allocation: Allocation,
  { capacity, actions }: WaitingFacts,
  context: RenderContext,
): string[] {
  const { nowMs, commandLine, paint } = context;
  const { allocation_id: id, name, pool, status, status_since, progress } = allocation;
  const { text: poolSentences, hints: poolHints } = poolText(allocation, capacity, context);
  const sentences = [
    'It has no machine yet.',
    progress?.message
      ? endSentence(`Now: ${toReadable(progress.message)}`)
      : waitingSentence(`a machine of pool ${pool}`),
    poolSentences,
    deadlineSentence(allocation, nowMs),
  ];
  const hints: Hint[] = [
    ['Follow it until it gets a machine', commandLine('watch', id)],
    ...poolHints,
    ['See what happened', commandLine('timeline', id)],
  ];
  return [
    titleLine(id, name, status, allocationTones[status], `for ${formatAgeSince(status_since, nowMs)}`, context),
    ...paragraph(sentences.filter(Boolean).join(' '), context),
    ...section('What you can do', [...hintLines(hints, paint), ...availableActionLines(id, actions, context)], context),
  ];
}
