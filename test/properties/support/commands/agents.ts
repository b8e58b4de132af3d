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
import { allowRefusal, type CommandContext, mustHave } from './command-context.ts';

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

const contextOf = ({ fixture }: CommandContext) => ({
  clock: fixture.clock,
  now: now(fixture.clock),
  environment: fixture.environment,
  installation: fixture.installation,
  correlation_id: newCorrelationId() as CorrelationId,
});

export function addBeat({ fixture }: CommandContext, node_instance_id: NodeInstanceId): void {
  fixture.beats.add({
    node_instance_id,
    received_ms: fixture.clock.nowMs(),
    interval_seconds: 10,
    stale_seconds: staleSeconds,
    has_assigned_interval: true,
    reported: null,
  });
}

/** Returns the outcome as text. */
export async function sendReport(
  context: CommandContext,
  node: NodeView,
  instance: NodeInstanceId,
  draw: number,
): Promise<string> {
  const { fixture } = context;
  const beat = at(beats, draw);
  const sender = { node_id: node.node_id, node_instance_id: instance, stale_seconds: staleSeconds };
  const outcome = await recordReport(fixture.db, sender, beat, now(fixture.clock), fixture.environment);
  return `reports ${JSON.stringify(beat)} → ${outcome.fenced ? 'fenced' : outcome.status}`;
}

export async function reportReady(context: CommandContext, { node_id, node_instance_id }: NodeView): Promise<void> {
  const { fixture } = context;
  addBeat(context, node_instance_id);
  const sender = { node_id, node_instance_id, stale_seconds: staleSeconds };
  await recordReport(fixture.db, sender, { status: 'ready' }, now(fixture.clock), fixture.environment);
}

/** A plain heartbeat from a failed or offline node, which may bring it back. */
export async function sendPlainBeat(
  { fixture }: CommandContext,
  { node_id, node_instance_id }: NodeView,
): Promise<void> {
  const sender = { node_id, node_instance_id, stale_seconds: staleSeconds };
  await recordReport(fixture.db, sender, {}, now(fixture.clock), fixture.environment);
}

export async function registerAgent(
  context: CommandContext,
  request: RegisterRequest,
  known?: InstanceRow,
): Promise<string> {
  return allowRefusal(async () => {
    const reply = await register(context.fixture.db, request, known, contextOf(context));
    if (reply.credential) context.credentials.set(reply.node_instance_id, reply.credential);
    return `registered as ${reply.node_instance_id}`;
  });
}

export const tokenOf = (
  { fixture }: CommandContext,
  { pool, node_id }: NodeView,
  node_instance_id: NodeInstanceId,
): string => fixture.installation.enrollmentToken({ pool, node_id, node_instance_id });

export async function registerAgain(context: CommandContext, instance: NodeInstanceId): Promise<string> {
  const credential = context.credentials.get(instance) ?? 'swc_never_given';
  const known = await instanceByCredential(context.fixture.db, credential, now(context.fixture.clock));
  return known ? registerAgent(context, { version: '2' }, known) : 'has no credential';
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

export async function report(
  context: CommandContext,
  node: NodeView,
  instance: NodeInstanceId,
  draw: number,
): Promise<string> {
  const { fixture } = context;
  const results = at(reports, draw).map(([name, ok]) => ({ name, ok }));
  const speaker = { node_id: node.node_id, node_instance_id: instance };
  const status = await reportPrerequisites(fixture.db, speaker, results, now(fixture.clock), fixture.environment);
  return `reports ${results.map(({ name, ok }) => `${name} ${ok ? 'met' : 'missing'}`)} → ${status ?? 'fenced'}`;
}

export async function advance(
  context: CommandContext,
  node: NodeView,
  instance: NodeInstanceId,
  draw: number,
): Promise<string> {
  const { fixture } = context;
  const name = `stage-${Math.floor(draw * 4)}`;
  const ids = { node_id: node.node_id, node_instance_id: instance, correlation_id: null };
  await storeBootStages(fixture.db, ids, [{ name, seconds: 1 }], now(fixture.clock), fixture.environment);
  return `shows boot ${name}`;
}

async function work(context: CommandContext, { node_id, node_instance_id }: NodeView, draw: number): Promise<string> {
  const { fixture } = context;
  const moment = now(fixture.clock);
  return fixture.db.transaction(async (tx) => {
    if (draw < 0.4) {
      const task = {
        task_id: newTaskId(fixture.clock),
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

type AgentCommand = (context: CommandContext, turn: Turn) => Promise<string>;

export const agentCommands = {
  claim: async (context, { node, draws }) => {
    const { node_instance_id } = mustHave(node);
    addBeat(context, node_instance_id);
    return sendReport(context, mustHave(node), node_instance_id, draws.how);
  },
  register: (context, { node, draws }) => {
    const found = mustHave(node);
    const base_url = draws.how < 0.5 ? { base_url: 'http://192.0.2.1' } : {};
    return registerAgent(context, {
      enrollment_token: tokenOf(context, found, found.node_instance_id),
      version: '1',
      ...base_url,
    });
  },
  'register-again': (context, { node }) => registerAgain(context, mustHave(node).node_instance_id),
  join: (context, { sequence: { life, pool, index, digit }, draws }) => {
    const name = life === 'brought' ? at(broughtNames, draws.how) : machineName(index);
    return registerAgent(context, { join_token: joinSecret(pool), name, version: '1', labels: { digit } });
  },
  report: (context, { node, draws }) => report(context, mustHave(node), mustHave(node).node_instance_id, draws.how),
  'boot-stage': (context, { node, draws }) =>
    advance(context, mustHave(node), mustHave(node).node_instance_id, draws.how),
  task: (context, { node, draws }) => work(context, mustHave(node), draws.how),
} as const satisfies Record<string, AgentCommand>;

/** Saves probe results in one batch, as the prober does. */
export async function answerProbes({ fixture }: CommandContext, turns: Turn[]): Promise<void> {
  const answers = turns.map((turn) => {
    const { node_id, node_instance_id } = mustHave(turn.node);
    const ok = turn.draws.how < 0.7;
    turn.log(ok ? 'answers a probe' : 'does not answer a probe');
    return { node_id, node_instance_id, ok, detail: 'simulated' };
  });
  await saveProbeResults(fixture.db, answers, now(fixture.clock));
}
