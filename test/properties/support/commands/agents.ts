/** What machines say: registrations, claims, reports. Each is one call of the store, as the agents' interface makes it. */
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
import { machineName, type NodeView, type Turn } from '../views.ts';
import { staleSeconds } from '../world.ts';
import { mustHave, refusable, type Stage } from './stage.ts';

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

export function heard({ world }: Stage, node_instance_id: NodeInstanceId): void {
  world.beats.add({
    node_instance_id,
    received_ms: world.clock.nowMs(),
    interval_seconds: 10,
    stale_seconds: staleSeconds,
    has_assigned_interval: true,
    reported: null,
  });
}

/** Answers in words what became of it. */
export async function say(stage: Stage, node: NodeView, instance: NodeInstanceId, thrown: number): Promise<string> {
  const { world } = stage;
  const beat = at(beats, thrown);
  const claiming = { node_id: node.node_id, node_instance_id: instance, stale_seconds: staleSeconds };
  const outcome = await recordReport(world.db, claiming, beat, now(world.clock), world.environment);
  return `says ${JSON.stringify(beat)} → ${outcome.fenced ? 'fenced' : outcome.status}`;
}

export async function claimReady(stage: Stage, { node_id, node_instance_id }: NodeView): Promise<void> {
  const { world } = stage;
  heard(stage, node_instance_id);
  const claiming = { node_id, node_instance_id, stale_seconds: staleSeconds };
  await recordReport(world.db, claiming, { status: 'ready' }, now(world.clock), world.environment);
}

/** A beat without a word, from a machine that was taken for gone: it may bring it back. */
export async function beatAgain({ world }: Stage, { node_id, node_instance_id }: NodeView): Promise<void> {
  const claiming = { node_id, node_instance_id, stale_seconds: staleSeconds };
  await recordReport(world.db, claiming, {}, now(world.clock), world.environment);
}

export async function knock(stage: Stage, request: RegisterRequest, known?: InstanceRow): Promise<string> {
  return refusable(async () => {
    const reply = await register(stage.world.db, request, known, contextOf(stage));
    if (reply.credential) stage.credentials.set(reply.node_instance_id, reply.credential);
    return `registered as ${reply.node_instance_id}`;
  });
}

export const tokenOf = ({ world }: Stage, { pool, node_id }: NodeView, node_instance_id: NodeInstanceId): string =>
  world.installation.enrollmentToken({ pool, node_id, node_instance_id });

export async function knockAgain(stage: Stage, instance: NodeInstanceId): Promise<string> {
  const credential = stage.credentials.get(instance) ?? 'swc_never_given';
  const known = await instanceByCredential(stage.world.db, credential, now(stage.world.clock));
  return known ? knock(stage, { version: '2' }, known) : 'has no credential';
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

export async function report(stage: Stage, node: NodeView, instance: NodeInstanceId, thrown: number): Promise<string> {
  const { world } = stage;
  const results = at(reports, thrown).map(([name, ok]) => ({ name, ok }));
  const speaker = { node_id: node.node_id, node_instance_id: instance };
  const status = await reportPrerequisites(world.db, speaker, results, now(world.clock), world.environment);
  return `reports ${results.map(({ name, ok }) => `${name} ${ok ? 'met' : 'missing'}`)} → ${status ?? 'fenced'}`;
}

export async function advance(stage: Stage, node: NodeView, instance: NodeInstanceId, thrown: number): Promise<string> {
  const { world } = stage;
  const name = `stage-${Math.floor(thrown * 4)}`;
  const ids = { node_id: node.node_id, node_instance_id: instance, correlation_id: null };
  await storeBootStages(world.db, ids, [{ name, seconds: 1 }], now(world.clock), world.environment);
  return `shows boot ${name}`;
}

async function work(stage: Stage, { node_id, node_instance_id }: NodeView, thrown: number): Promise<string> {
  const { world } = stage;
  const moment = now(world.clock);
  return world.db.transaction(async (tx) => {
    if (thrown < 0.4) {
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
    if (!task || thrown > 0.8) return task ? 'took a task and is silent about it' : 'found no task';
    const status = thrown < 0.7 ? 'succeeded' : 'failed';
    return `${status} with a task: ${await answerTask(tx, task.task_id, node_instance_id, { status }, moment)}`;
  });
}

/** How the machines of a pool of one's own are called. */
export const broughtNames = ['m-0', 'm-1'];

type Voice = (stage: Stage, turn: Turn) => Promise<string>;

export const voices = {
  claim: async (stage, { node, throws }) => {
    const { node_instance_id } = mustHave(node);
    heard(stage, node_instance_id);
    return say(stage, mustHave(node), node_instance_id, throws.how);
  },
  register: (stage, { node, throws }) => {
    const found = mustHave(node);
    const base_url = throws.how < 0.5 ? { base_url: 'http://192.0.2.1' } : {};
    return knock(stage, { enrollment_token: tokenOf(stage, found, found.node_instance_id), version: '1', ...base_url });
  },
  'register-again': (stage, { node }) => knockAgain(stage, mustHave(node).node_instance_id),
  join: (stage, { sequence: { life, pool, index, digit }, throws }) => {
    const name = life === 'brought' ? at(broughtNames, throws.how) : machineName(index);
    return knock(stage, { join_token: joinSecret(pool), name, version: '1', labels: { digit } });
  },
  report: (stage, { node, throws }) => report(stage, mustHave(node), mustHave(node).node_instance_id, throws.how),
  'boot-stage': (stage, { node, throws }) =>
    advance(stage, mustHave(node), mustHave(node).node_instance_id, throws.how),
  task: (stage, { node, throws }) => work(stage, mustHave(node), throws.how),
} as const satisfies Record<string, Voice>;

/** Probes are answered together, as the prober keeps them. */
export async function answerProbes({ world }: Stage, turns: Turn[]): Promise<void> {
  const answers = turns.map((turn) => {
    const { node_id, node_instance_id } = mustHave(turn.node);
    const ok = turn.throws.how < 0.7;
    turn.tell(ok ? 'answers a probe' : 'does not answer a probe');
    return { node_id, node_instance_id, ok, detail: 'played' };
  });
  await saveProbeResults(world.db, answers, now(world.clock));
}
