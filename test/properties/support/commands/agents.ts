/**
 * Requests of agents: registrations, heartbeats, reports. Each is one call of the store, as in the
 * API.
 */
import { now, secondsLater } from '../../../../src/base/clock.ts';
import { type CorrelationId, type NodeInstanceId, newCorrelationId, newTaskId } from '../../../../src/base/ids.ts';
import type { Heartbeat, RegisterRequest } from '../../../../src/contract/agent/agent.ts';
import { storeBootStages } from '../../../../src/store/agents/boot-stages.ts';
import { type InstanceRow, instanceByCredential } from '../../../../src/store/agents/instances.ts';
import { reportPrerequisites } from '../../../../src/store/agents/prerequisites.ts';
import { register } from '../../../../src/store/agents/register.ts';
import { recordReport } from '../../../../src/store/agents/reports.ts';
import { answerTask, leaseNext, queueTask } from '../../../../src/store/agents/tasks.ts';
import { saveProbeResults } from '../../../../src/store/supervision/probes.ts';
import { joinSecret } from '../pools.ts';
import { at } from '../random.ts';
import { staleSeconds } from '../sequence-fixture.ts';
import { machineName, type NodeView, type Turn } from '../views.ts';
import { allowRefusal, mustHave, type Stage } from './stage.ts';

const beats: Heartbeat[] = [
  { status: 'ready' },
  { status: 'ready' },
  { status: 'ready', error_rate: 0.05 },
  { status: 'ready', error_rate: 0.9 },
  { status: 'starting' },
  { status: 'starting', boot_stage: 'mounting' },
  { status: 'starting', boot_stage: 'pulling' },
  { status: 'degraded' },
  { status: 'degraded', error_rate: 0 },
  { status: 'stopping' },
  { error_rate: 0.5 },
  { error_rate: 0.3 },
  { error_rate: 0.09 },
  {},
];

const contextOf = ({ world }: Stage) => ({
  clock: world.clock,
  now: now(world.clock),
  environment: world.environment,
  installation: world.installation,
  correlation_id: newCorrelationId() as CorrelationId,
});

export function addBeat({ world }: Stage, node_instance_id: NodeInstanceId): void {
  world.beats.add({
    node_instance_id,
    received_ms: world.clock.nowMs(),
    interval_seconds: 10,
    stale_seconds: staleSeconds,
    has_assigned_interval: true,
    reported: null,
  });
}

/** Returns the outcome as text. */
export async function sendReport(
  stage: Stage,
  node: NodeView,
  instance: NodeInstanceId,
  draw: number,
): Promise<string> {
  const { world } = stage;
  const beat = at(beats, draw);
  const sender = { node_id: node.node_id, node_instance_id: instance, stale_seconds: staleSeconds };
  const outcome = await recordReport(world.db, sender, beat, now(world.clock), world.environment);
  return `reports ${JSON.stringify(beat)} → ${outcome.fenced ? 'fenced' : outcome.status}`;
}

export async function reportReady(stage: Stage, { node_id, node_instance_id }: NodeView): Promise<void> {
  const { world } = stage;
  addBeat(stage, node_instance_id);
  const sender = { node_id, node_instance_id, stale_seconds: staleSeconds };
  await recordReport(world.db, sender, { status: 'ready' }, now(world.clock), world.environment);
}

/** A plain heartbeat from a failed or offline node, which may bring it back. */
export async function sendPlainBeat({ world }: Stage, { node_id, node_instance_id }: NodeView): Promise<void> {
  const sender = { node_id, node_instance_id, stale_seconds: staleSeconds };
  await recordReport(world.db, sender, {}, now(world.clock), world.environment);
}

export async function registerAgent(stage: Stage, request: RegisterRequest, known?: InstanceRow): Promise<string> {
  return allowRefusal(async () => {
    const reply = await register(stage.world.db, request, known, contextOf(stage));
    if (reply.credential) stage.credentials.set(reply.node_instance_id, reply.credential);
    return `registered as ${reply.node_instance_id}`;
  });
}

export const tokenOf = ({ world }: Stage, { pool, node_id }: NodeView, node_instance_id: NodeInstanceId): string =>
  world.installation.enrollmentToken({ pool, node_id, node_instance_id });

export async function registerAgain(stage: Stage, instance: NodeInstanceId): Promise<string> {
  const credential = stage.credentials.get(instance) ?? 'swc_never_given';
  const known = await instanceByCredential(stage.world.db, credential, now(stage.world.clock));
  return known ? registerAgent(stage, { version: '2' }, known) : 'has no credential';
}

const reports = [
  [
    ['disk', true],
    ['gpu', true],
  ],
  [
    ['disk', true],
    ['gpu', true],
  ],
  [
    ['disk', true],
    ['gpu', false],
  ],
  [['disk', true]],
] as const;

export async function report(stage: Stage, node: NodeView, instance: NodeInstanceId, draw: number): Promise<string> {
  const { world } = stage;
  const results = at(reports, draw).map(([name, ok]) => ({ name, ok }));
  const speaker = { node_id: node.node_id, node_instance_id: instance };
  const status = await reportPrerequisites(world.db, speaker, results, now(world.clock), world.environment);
  return `reports ${results.map(({ name, ok }) => `${name} ${ok ? 'met' : 'missing'}`)} → ${status ?? 'fenced'}`;
}

export async function advance(stage: Stage, node: NodeView, instance: NodeInstanceId, draw: number): Promise<string> {
  const { world } = stage;
  const name = `stage-${Math.floor(draw * 4)}`;
  const ids = { node_id: node.node_id, node_instance_id: instance, correlation_id: null };
  await storeBootStages(world.db, ids, [{ name, seconds: 1 }], now(world.clock), world.environment);
  return `shows boot ${name}`;
}

async function work(stage: Stage, { node_id, node_instance_id }: NodeView, draw: number): Promise<string> {
  const { world } = stage;
  const moment = now(world.clock);
  return world.db.transaction(async (tx) => {
    if (draw < 0.4) {
      const task = {
        task_id: newTaskId(world.clock),
        node_id,
        node_instance_id,
        type: 'ping',
        params: {},
        lease_seconds: 10,
      };
      const ids = { correlation_id: null, allocation_id: null, workflow_id: null };
      await queueTask(tx, { ...task, ...ids, expires_at: secondsLater(moment, 60) }, moment);
    }
    const task = await leaseNext(tx, node_instance_id, moment, false);
    if (!task || draw > 0.8) return task ? 'took a task and did not finish it' : 'found no task';
    const status = draw < 0.7 ? 'succeeded' : 'failed';
    return `${status} with a task: ${await answerTask(tx, task.task_id, node_instance_id, { status }, moment)}`;
  });
}

/** The names of the machines in a sequence's own pool. */
export const broughtNames = ['m-0', 'm-1'];

type AgentCommand = (stage: Stage, turn: Turn) => Promise<string>;

export const agentCommands = {
  claim: async (stage, { node, draws }) => {
    const { node_instance_id } = mustHave(node);
    addBeat(stage, node_instance_id);
    return sendReport(stage, mustHave(node), node_instance_id, draws.how);
  },
  register: (stage, { node, draws }) => {
    const found = mustHave(node);
    const base_url = draws.how < 0.5 ? { base_url: 'http://192.0.2.1' } : {};
    return registerAgent(stage, {
      enrollment_token: tokenOf(stage, found, found.node_instance_id),
      version: '1',
      ...base_url,
    });
  },
  'register-again': (stage, { node }) => registerAgain(stage, mustHave(node).node_instance_id),
  join: (stage, { sequence: { life, pool, index, digit }, draws }) => {
    const name = life === 'brought' ? at(broughtNames, draws.how) : machineName(index);
    return registerAgent(stage, { join_token: joinSecret(pool), name, version: '1', labels: { digit } });
  },
  report: (stage, { node, draws }) => report(stage, mustHave(node), mustHave(node).node_instance_id, draws.how),
  'boot-stage': (stage, { node, draws }) => advance(stage, mustHave(node), mustHave(node).node_instance_id, draws.how),
  task: (stage, { node, draws }) => work(stage, mustHave(node), draws.how),
} as const satisfies Record<string, AgentCommand>;

/** Saves probe results in one batch, as the prober does. */
export async function answerProbes({ world }: Stage, turns: Turn[]): Promise<void> {
  const answers = turns.map((turn) => {
    const { node_id, node_instance_id } = mustHave(turn.node);
    const ok = turn.draws.how < 0.7;
    turn.log(ok ? 'answers a probe' : 'does not answer a probe');
    return { node_id, node_instance_id, ok, detail: 'simulated' };
  });
  await saveProbeResults(world.db, answers, now(world.clock));
}
