/**
 * What an allocation waits for that has no machine yet: why none of its pool is free, whether there
 * will be more, and what one can do.
 */
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
import { allocationTones } from '../text/palette.ts';
import { printable } from '../text/text.ts';
import { type ClosingContext, hintLines } from './outcome.ts';

/**
 * How the pool stands; `unseen` to whoever may not look at the fleet, `gone` where it was deleted
 * meanwhile.
 */
export type PoolStanding = { pool: Pool; counts: FleetCounts['items'] } | 'unseen' | 'gone';

export interface WaitingFacts {
  standing: PoolStanding;
  actions: Offer<AllocationActionName>[];
}

type Hint = [purpose: string, command: string];

/** Those that are up are told by who holds them. */
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
    // Held by nobody, and still not to be had: why of each is told by the machine itself.
    ...are(free, 'held by nobody, but degraded, with something left on it, or the turn of somebody who asked before'),
  ];
  const size = live === 1 ? '1 machine' : `${live} machines`;
  return `Pool ${pool.name} has ${size}${parts.length > 0 ? `: ${parts.join(', ')}` : ''}.`;
}

interface Growth {
  says: string;
  hints: Hint[];
}

/** Whether the pool will have more machines, and who sees to it. */
function growthOf({ name, driver, paused, max_nodes, nodes }: Pool, { commandLine }: ClosingContext): Growth {
  const change = commandLine('apply', '-f', 'pools.yaml');
  if (driver === 'external')
    return {
      says: 'Its machines are not made by Slipway: somebody must bring one, or one must be given back.',
      hints: [['Let a machine join', commandLine('join-token', 'create', name)]],
    };
  if (paused)
    return {
      says: 'The pool is paused, so no new machine is made for it.',
      hints: [['Unpause the pool (paused: false)', change]],
    };
  if (max_nodes !== undefined && nodes.live >= max_nodes)
    return {
      says: `It may have ${max_nodes} at most (max_nodes), so one must be given back, or the limit be raised.`,
      hints: [['Raise max_nodes', change]],
    };
  return {
    says: 'There is room for a new machine, which is made when its turn comes and nothing holds launches back.',
    hints: [['See whether launches are held back', commandLine('brake')]],
  };
}

function poolWords(allocation: Allocation, standing: PoolStanding, context: ClosingContext): Growth {
  const { commandLine } = context;
  const name = printable(allocation.pool);
  if (standing === 'unseen')
    return {
      says: `How pool ${name} stands is seen by the operators of the fleet; ask them if it takes long.`,
      hints: [],
    };
  if (standing === 'gone')
    return {
      says: `There is no pool ${name} any more.`,
      hints: [['Declare the pool again', commandLine('apply', '-f', 'pools.yaml')]],
    };
  const growth = growthOf(standing.pool, context);
  return {
    says: `${whyNoneIsFree(standing.pool, standing.counts)} ${growth.says}`,
    hints: [
      ...growth.hints,
      ['See its machines', commandLine('nodes', '--pool', name)],
      ['See who holds them and who waits', commandLine('allocations', '--pool', name)],
    ],
  };
}

function deadlineSentence({ deadline_at }: Allocation, nowMs: number): string {
  if (!deadline_at) return '';
  const when = secondsSince(deadline_at, nowMs) < 0 ? relative(deadline_at, nowMs) : 'now';
  return `It is given up ${when}, at ${momentInFull(deadline_at)}, if it has none by then.`;
}

export function waitingAllocationLines(
  allocation: Allocation,
  { standing, actions }: WaitingFacts,
  context: ClosingContext,
): string[] {
  const { nowMs, commandLine, paint } = context;
  const { allocation_id: id, name, pool, status, status_since, progress } = allocation;
  const words = poolWords(allocation, standing, context);
  const story = [
    'It has no machine yet.',
    progress?.message ? sentence(`Now: ${readable(progress.message)}`) : waitingSentence(`a machine of pool ${pool}`),
    words.says,
    deadlineSentence(allocation, nowMs),
  ];
  const hints: Hint[] = [
    ['Follow it until it has one', commandLine('watch', id)],
    ...words.hints,
    ['See what happened', commandLine('timeline', id)],
  ];
  return [
    titleLine(id, name, status, allocationTones[status], `for ${ageSince(status_since, nowMs)}`, context),
    ...paragraph(story.filter(Boolean).join(' '), context),
    ...section('What you can do', [...hintLines(hints, paint), ...openActionLines(id, actions, context)], context),
  ];
}
