/** The commands that are allowed in each state of a sequence, with their weights. */
import type { NodeStatus } from '../../../../src/lifecycle/model/states.ts';
import { at, weighted } from '../random.ts';
import type { Turn } from '../views.ts';
import { agentCommands } from './agents.ts';
import { formerCommands } from './former-instances.ts';
import { requests } from './operations.ts';
import { operators, type TransitionMoveName, transitionMoves } from './operators.ts';
import { isReleasable, mayFinish, mayForce, needsFence } from './releases.ts';

export type SingleName = keyof typeof agentCommands | keyof typeof operators | keyof typeof requests;
export type FormerName = keyof typeof formerCommands;
const batchNames = [
  'appear',
  'probe',
  're-enroll',
  'prove',
  'fence',
  'finish',
  'force',
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
    error: 1,
    retire: 0.2,
    quarantine: 0.4,
    claim: 0.2,
  },
  starting: {
    claim: 3,
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
    claim: 2,
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
  degraded: { claim: 4, beat: 3, silence: 3, wait: 3, probe: 1, drain: 1, 'register-again': 0.2, retire: 0.1 },
  offline: {
    claim: 1.5,
    beat: 3,
    wait: 7,
    'register-again': 0.5,
    're-enroll': 1,
    drain: 0.7,
    extend: 0.4,
    retire: 0.1,
  },
  failed: {
    claim: 1,
    beat: 3,
    register: 2,
    'register-again': 1,
    wait: 6,
    're-enroll': 1,
    extend: 0.4,
    quarantine: 0.4,
    retire: 0.1,
  },
  draining: { undrain: 2, drained: 2, wait: 6, claim: 0.5, extend: 0.3, 'register-again': 0.2, retire: 0.2 },
  cleaning: { prove: 4, 'clean-error': 0.5, wait: 5, claim: 0.5, 'register-again': 0.3, extend: 0.2, quarantine: 0.5 },
  quarantined: {
    reactivate: 3,
    're-enroll': 2,
    claim: 0.5,
    register: 0.3,
    'register-again': 0.3,
    retire: 0.2,
    wait: 2,
  },
  retired: { claim: 0.2, register: 0.2, wait: 2 },
};

const anywhere: Weights = { 'unknown-move': 0.7 };
const former: Weights = {
  'former-claims': 0.7,
  'former-enrols': 0.3,
  'former-returns': 0.3,
  'former-reports': 0.2,
  'former-boots': 0.2,
  'former-operation': 0.7,
};
const agentless: Record<NodeStatus, Weights> = {
  ...byStatus,
  provisioning: { ensured: 4, wait: 3, error: 1, extend: 0.3 },
  starting: { 'upstream-ready': 4, wait: 3, extend: 0.3 },
  ready: { drain: 2, wait: 2, retire: 0.4, quarantine: 1, reimage: 1 },
};
const reportsPrerequisites: readonly NodeStatus[] = ['provisioning', 'starting', 'failed'];

const owned = ['releasing', 'release_failed'];

function ofMachine({ sequence, node, allocations }: Turn): Weights {
  if (!node) return {};
  const open: Weights = { ...(sequence.life === 'agentless' ? agentless : byStatus)[node.status], ...anywhere };
  // A release proves and retries by itself.
  if (allocations.some(({ node_id, status }) => node_id === node.node_id && owned.includes(status))) {
    delete open.prove;
    delete open['clean-error'];
  }
  // A fenced instance, or a machine that was never proven clean, cannot be reactivated.
  if (node.fenced || node.unproven) delete open.reactivate;
  if (node.held) open['apply-held'] = 3;
  if (node.former.length > 0) Object.assign(open, former);
  if (sequence.pool === 'requiring' && reportsPrerequisites.includes(node.status)) open.report = 4;
  if (sequence.life === 'joined' || sequence.life === 'brought') open.join = node.status === 'retired' ? 3 : 0.5;
  return open;
}

/** A sequence with its own pool has up to two allocations. */
function ofAllocations(turn: Turn): Weights {
  const { sequence, allocations, nodes } = turn;
  if (sequence.life !== 'launched' && sequence.life !== 'brought') return {};
  const open: Weights = {};
  const openIf = (weight: number, name: CommandName, fits: (each: Turn['allocations'][number]) => boolean) => {
    if (allocations.some(fits)) open[name] = weight;
  };
  const waiting = allocations.filter(({ status }) => status !== 'released' && status !== 'failed').length;
  if (waiting < 2) open.request = waiting === 0 ? 4 : 1.5;
  const live = nodes.filter(({ status }) => status !== 'retired').length;
  if (sequence.life === 'brought' && live < 2) open.join = live === 0 ? 12 : 4;
  openIf(20, 'assign', ({ provision }) => provision !== null);
  openIf(2, 'release', isReleasable);
  openIf(14, 'retry', ({ status, provision }) => status === 'failed' && provision === null);
  openIf(5, 'fence', (each) => needsFence(turn, each));
  openIf(5, 'finish', (each) => mayFinish(turn, each));
  openIf(0.5, 'force', (each) => mayForce(turn, each));
  return open;
}

export function choose(turn: Turn): CommandName {
  const { sequence, draws, nodes } = turn;
  const lone = sequence.life === 'expected' || sequence.life === 'agentless';
  if (nodes.length === 0 && lone) return 'appear';
  if (nodes.length === 0 && sequence.life === 'joined') return 'join';
  if (nodes.length === 0 && sequence.life === 'brought' && sequence.flavour < 0.4) return 'move-in';
  return weighted({ ...ofMachine(turn), ...ofAllocations(turn) }, draws.command);
}

/** The machine that a draw selects; mostly one that is not retired. */
export function machineOf(nodes: Turn['nodes'], draw: number): Turn['node'] {
  const live = nodes.filter(({ status }) => status !== 'retired');
  if (nodes.length === 0) return undefined;
  return at(live.length > 0 && draw > 0.05 ? live : nodes, draw);
}

export const isFormer = (name: CommandName): name is FormerName => name in formerCommands;
export const isSingle = (name: CommandName): name is SingleName =>
  name in agentCommands || name in operators || name in requests;
export const isTransitionMove = (name: CommandName): name is TransitionMoveName => name in transitionMoves;
export const singles = { ...agentCommands, ...operators, ...requests };
export const allCommands: readonly string[] = [singles, formerCommands, transitionMoves]
  .flatMap(Object.keys)
  .concat(batchNames);
