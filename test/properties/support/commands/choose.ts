/** Chooses a command by weight among those that are allowed in the current state of a sequence. */
import type { NodeStatus } from '../../../../src/lifecycle/model/states.ts';
import { pickAt, pickWeighted } from '../random.ts';
import type { Turn } from '../views.ts';
import { agentCommands } from './agents.ts';
import { formerCommands } from './former-instances.ts';
import { requests } from './operations.ts';
import { operators, type TransitionMoveName, transitionMoves } from './operators.ts';
import { isReleasable, mayFinish, mayForce, needsFence } from './releases.ts';

export type SingleName = keyof typeof agentCommands | keyof typeof operators | keyof typeof requests;
export type FormerName = keyof typeof formerCommands;
const batchNames = [
  'create',
  'probe',
  're-enroll',
  'prove-gone',
  'fence',
  'finish-release',
  'force-release',
  'beat',
  'silence',
  'wait',
] as const;
export type BatchName = TransitionMoveName | (typeof batchNames)[number];
export type CommandName = SingleName | BatchName | FormerName;

type Weights = Partial<Record<CommandName, number>>;

/** Waiting is cheap and lets the rules decide, so it has a high weight. */
const byStatus: Record<NodeStatus, Weights> = {
  provisioning: {
    register: 8,
    wait: 8,
    'boot-stage': 0.7,
    extend: 0.7,
    'provision-error': 1,
    retire: 0.2,
    quarantine: 0.4,
    'report-status': 0.2,
  },
  starting: {
    'report-status': 3,
    beat: 9,
    silence: 1,
    wait: 6,
    probe: 2,
    'register-again': 0.5,
    extend: 0.3,
    'boot-stage': 0.4,
    task: 0.5,
    retire: 0.1,
    quarantine: 0.3,
  },
  ready: {
    'report-status': 2,
    beat: 5,
    silence: 6,
    wait: 5,
    probe: 1,
    drain: 2,
    'register-again': 0.3,
    task: 0.2,
    retire: 0.1,
    quarantine: 0.4,
    reimage: 0.4,
  },
  degraded: {
    'report-status': 4,
    beat: 3,
    silence: 3,
    wait: 3,
    probe: 1,
    drain: 1,
    'register-again': 0.2,
    retire: 0.1,
  },
  offline: {
    'report-status': 1.5,
    beat: 3,
    wait: 7,
    'register-again': 0.5,
    're-enroll': 1,
    drain: 0.7,
    extend: 0.4,
    retire: 0.1,
  },
  failed: {
    'report-status': 1,
    beat: 3,
    register: 2,
    'register-again': 1,
    wait: 6,
    're-enroll': 1,
    extend: 0.4,
    quarantine: 0.4,
    retire: 0.1,
  },
  draining: { undrain: 2, drained: 2, wait: 6, 'report-status': 0.5, extend: 0.3, 'register-again': 0.2, retire: 0.2 },
  cleaning: {
    'prove-gone': 4,
    'clean-error': 0.5,
    wait: 5,
    'report-status': 0.5,
    'register-again': 0.3,
    extend: 0.2,
    quarantine: 0.5,
  },
  quarantined: {
    reactivate: 3,
    're-enroll': 2,
    'report-status': 0.5,
    register: 0.3,
    'register-again': 0.3,
    retire: 0.2,
    wait: 2,
  },
  retired: { 'report-status': 0.2, register: 0.2, wait: 2 },
};

const inEveryStatus: Weights = { 'unknown-move': 0.7 };
const withFormerInstances: Weights = {
  'former-report-status': 0.7,
  'former-register': 0.3,
  'former-register-again': 0.3,
  'former-report-prerequisites': 0.2,
  'former-boot-stage': 0.2,
  'former-operation': 0.7,
};
const agentlessByStatus: Record<NodeStatus, Weights> = {
  ...byStatus,
  provisioning: { ensured: 4, wait: 3, 'provision-error': 1, extend: 0.3 },
  starting: { 'upstream-ready': 4, wait: 3, extend: 0.3 },
  ready: { drain: 2, wait: 2, retire: 0.4, quarantine: 1, reimage: 1 },
};
const reportsPrerequisites: readonly NodeStatus[] = ['provisioning', 'starting', 'failed'];

const releaseStatuses = ['releasing', 'release_failed'];

function machineWeights({ sequence, node, allocations }: Turn): Weights {
  if (!node) return {};
  const weights: Weights = {
    ...(sequence.life === 'agentless' ? agentlessByStatus : byStatus)[node.status],
    ...inEveryStatus,
  };
  // A release proves its node gone itself, and is retried after an error.
  if (allocations.some(({ node_id, status }) => node_id === node.node_id && releaseStatuses.includes(status))) {
    delete weights['prove-gone'];
    delete weights['clean-error'];
  }
  // A fenced instance, or a machine that was never proven clean, cannot be reactivated.
  if (node.fenced || node.unproven) delete weights.reactivate;
  if (node.held) weights['apply-held'] = 3;
  if (node.former.length > 0) Object.assign(weights, withFormerInstances);
  if (sequence.pool === 'prerequisites' && reportsPrerequisites.includes(node.status))
    weights['report-prerequisites'] = 4;
  if (sequence.life === 'joined' || sequence.life === 'join-pool') weights.join = node.status === 'retired' ? 3 : 0.5;
  return weights;
}

/** A sequence with its own pool has at most two allocations that are not released or failed. */
function allocationWeights(turn: Turn): Weights {
  const { sequence, allocations, nodes } = turn;
  if (sequence.life !== 'launch-pool' && sequence.life !== 'join-pool') return {};
  const weights: Weights = {};
  const allowIf = (weight: number, name: CommandName, fits: (allocation: Turn['allocations'][number]) => boolean) => {
    if (allocations.some(fits)) weights[name] = weight;
  };
  const openCount = allocations.filter(({ status }) => status !== 'released' && status !== 'failed').length;
  if (openCount < 2) weights.request = openCount === 0 ? 4 : 1.5;
  const liveCount = nodes.filter(({ status }) => status !== 'retired').length;
  if (sequence.life === 'join-pool' && liveCount < 2) weights.join = liveCount === 0 ? 12 : 4;
  allowIf(20, 'assign', ({ provision }) => provision !== null);
  allowIf(2, 'release', isReleasable);
  allowIf(14, 'retry', ({ status, provision }) => status === 'failed' && provision === null);
  allowIf(5, 'fence', (allocation) => needsFence(turn, allocation));
  allowIf(5, 'finish-release', (allocation) => mayFinish(turn, allocation));
  allowIf(0.5, 'force-release', (allocation) => mayForce(turn, allocation));
  return weights;
}

export function choose(turn: Turn): CommandName {
  const { sequence, draws, nodes } = turn;
  const hasOneMachine = sequence.life === 'expected' || sequence.life === 'agentless';
  if (nodes.length === 0 && hasOneMachine) return 'create';
  if (nodes.length === 0 && sequence.life === 'joined') return 'join';
  if (nodes.length === 0 && sequence.life === 'join-pool' && sequence.variant < 0.4) return 'move-in';
  return pickWeighted({ ...machineWeights(turn), ...allocationWeights(turn) }, draws.command);
}

/** Returns the machine that a draw selects, seldom a retired one while others live. */
export function pickMachine(nodes: Turn['nodes'], draw: number): Turn['node'] {
  const liveNodes = nodes.filter(({ status }) => status !== 'retired');
  if (nodes.length === 0) return undefined;
  return pickAt(liveNodes.length > 0 && draw > 0.05 ? liveNodes : nodes, draw);
}

export const isFormerCommand = (name: CommandName): name is FormerName => name in formerCommands;
export const isSingleCommand = (name: CommandName): name is SingleName =>
  name in agentCommands || name in operators || name in requests;
export const isTransitionMove = (name: CommandName): name is TransitionMoveName => name in transitionMoves;
export const singleCommands = { ...agentCommands, ...operators, ...requests };
export const allCommands: readonly string[] = [singleCommands, formerCommands, transitionMoves]
  .flatMap(Object.keys)
  .concat(batchNames);
