/** An allocation that waits for a machine: why none is free, and what you can do. */
import type { Allocation } from '../../../contract/allocation.ts';
import type { FleetCounts } from '../../../contract/fleet/fleet.ts';
import type { Pool } from '../../../contract/pool.ts';
import type { Offer } from '../../../lifecycle/actions/action-table.ts';
import type { AllocationActionName } from '../../../lifecycle/actions/allocation-actions.ts';
import type { NodeStatus } from '../../../lifecycle/model/states.ts';
import { openActionLines } from '../machines/actions.ts';
import { paragraph, readable, section, sentence, waitingSentence } from '../machines/explanation.ts';
import { titleLine } from '../machines/node.ts';
import { ageSince, momentInFull, relative, secondsSince } from '../text/duration.ts';
import { type Hint, hintLines, type RenderContext } from '../text/hints.ts';
import { allocationTones } from '../text/palette.ts';
import { printable } from '../text/text.ts';

/** The state of the pool; `unseen` if the token may not read it, `gone` if it was deleted. */
export type PoolStanding = { pool: Pool; counts: FleetCounts['items'] } | 'unseen' | 'gone';

export interface WaitingFacts {
  standing: PoolStanding;
  actions: Offer<AllocationActionName>[];
}

/** Nodes that are up are counted by their holder instead. */
const notUp: Partial<Record<NodeStatus, string>> = {
  provisioning: 'being brought up',
  starting: 'starting',
  offline: 'offline',
  draining: 'draining',
  cleaning: 'being cleaned',
  failed: 'failed',
  quarantined: 'quarantined',
};

const are = (count: number, words: string) => (count > 0 ? [`${count} ${count === 1 ? 'is' : 'are'} ${words}`] : []);

function whyNoneIsFree(pool: Pool, counts: FleetCounts['items']): string {
  const inStatus = (...wanted: NodeStatus[]) =>
    counts
      .filter(({ pool: of, status }) => of === pool.name && wanted.includes(status))
      .reduce((sum, { nodes }) => sum + nodes, 0);
  const { live, free } = pool.nodes;
  if (live === 0) return `Pool ${pool.name} has no machine.`;
  const parts = [
    ...are(Math.max(0, inStatus('ready', 'degraded') - free), 'held by other allocations'),
    ...Object.entries(notUp).flatMap(([status, words]) => are(inStatus(status as NodeStatus), words)),
    // Free, but not available to this allocation; each machine shows why.
    ...are(free, 'free, but degraded, with residue, or reserved for an earlier request'),
  ];
  const size = live === 1 ? '1 machine' : `${live} machines`;
  return `Pool ${pool.name} has ${size}${parts.length > 0 ? `: ${parts.join(', ')}` : ''}.`;
}

interface Growth {
  says: string;
  hints: Hint[];
}

/** Whether the pool will get more machines, and how. */
function growthOf({ name, driver, paused, max_nodes, nodes }: Pool, { commandLine }: RenderContext): Growth {
  const change = commandLine('apply', '-f', 'pools.yaml');
  if (driver === 'external')
    return {
      says: 'Slipway does not launch its machines: a machine must join, or an allocation must be released.',
      hints: [['Let a machine join', commandLine('join-token', 'create', name)]],
    };
  if (paused)
    return {
      says: 'The pool is paused, so no new machine is launched.',
      hints: [['Unpause the pool (paused: false)', change]],
    };
  if (max_nodes !== undefined && nodes.live >= max_nodes)
    return {
      says: `It may have at most ${max_nodes} (max_nodes): an allocation must be released, or the limit raised.`,
      hints: [['Raise max_nodes', change]],
    };
  return {
    says: 'There is room for a new machine. Slipway launches it in turn, unless the brake holds launches back.',
    hints: [['See whether the brake holds launches back', commandLine('brake')]],
  };
}

function poolText(allocation: Allocation, standing: PoolStanding, context: RenderContext): Growth {
  const { commandLine } = context;
  const name = printable(allocation.pool);
  if (standing === 'unseen')
    return {
      says: `Your token may not read pool ${name}; ask an operator if it takes long.`,
      hints: [],
    };
  if (standing === 'gone')
    return {
      says: `Pool ${name} no longer exists.`,
      hints: [['Declare the pool again', commandLine('apply', '-f', 'pools.yaml')]],
    };
  const growth = growthOf(standing.pool, context);
  return {
    says: `${whyNoneIsFree(standing.pool, standing.counts)} ${growth.says}`,
    hints: [
      ...growth.hints,
      ['See its machines', commandLine('nodes', '--pool', name)],
      ['See its allocations', commandLine('allocations', '--pool', name)],
    ],
  };
}

function deadlineSentence({ deadline_at }: Allocation, nowMs: number): string {
  if (!deadline_at) return '';
  const when = secondsSince(deadline_at, nowMs) < 0 ? relative(deadline_at, nowMs) : 'now';
  return `Without a machine it fails ${when}, at ${momentInFull(deadline_at)}.`;
}

export function waitingAllocationLines(
  allocation: Allocation,
  { standing, actions }: WaitingFacts,
  context: RenderContext,
): string[] {
  const { nowMs, commandLine, paint } = context;
  const { allocation_id: id, name, pool, status, status_since, progress } = allocation;
  const poolFacts = poolText(allocation, standing, context);
  const story = [
    'It has no machine yet.',
    progress?.message ? sentence(`Now: ${readable(progress.message)}`) : waitingSentence(`a machine of pool ${pool}`),
    poolFacts.says,
    deadlineSentence(allocation, nowMs),
  ];
  const hints: Hint[] = [
    ['Follow it until it has one', commandLine('watch', id)],
    ...poolFacts.hints,
    ['See what happened', commandLine('timeline', id)],
  ];
  return [
    titleLine(id, name, status, allocationTones[status], `for ${ageSince(status_since, nowMs)}`, context),
    ...paragraph(story.filter(Boolean).join(' '), context),
    ...section('What you can do', [...hintLines(hints, paint), ...openActionLines(id, actions, context)], context),
  ];
}
