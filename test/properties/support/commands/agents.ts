/**
 * Commands of agents: registrations, heartbeats and reports. Each command makes the same call to
 * the store as the API handler of the request.
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
import { pickAt } from '../random.ts';
import { staleSeconds } from '../sequence-fixture.ts';
import { machineName, type NodeView, type Turn } from '../views.ts';
import { allowRefusal, type CommandContext, mustHave } from './command-context.ts';

const heartbeats: Heartbeat[] = [
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

const registrationContext = ({ fixture }: CommandContext) => ({
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

/** Sends a status report that the draw selects. Returns the outcome as text. */
export async function reportStatus(
  context: CommandContext,
  node: NodeView,
  instance: NodeInstanceId,
  draw: number,
): Promise<string> {
  const { fixture } = context;
  const beat = pickAt(heartbeats, draw);
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

/**
 * Sends a heartbeat without a status from a failed or offline node, which may bring the node back.
 */
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
  instanceRow?: InstanceRow,
): Promise<string> {
  return allowRefusal(async () => {
    const reply = await register(context.fixture.db, request, instanceRow, registrationContext(context));
    if (reply.credential) context.credentials.set(reply.node_instance_id, reply.credential);
    return `registered as ${reply.node_instance_id}`;
  });
}

export const enrollmentTokenOf = (
  { fixture }: CommandContext,
  { pool, node_id }: NodeView,
  node_instance_id: NodeInstanceId,
): string => fixture.installation.signEnrollmentToken({ pool, node_id, node_instance_id });

export async function registerAgain(context: CommandContext, instance: NodeInstanceId): Promise<string> {
  const credential = context.credentials.get(instance) ?? 'swc_never_given';
  const instanceRow = await instanceByCredential(context.fixture.db, credential, now(context.fixture.clock));
  return instanceRow ? registerAgent(context, { version: '2' }, instanceRow) : 'has no credential';
}

const prerequisiteReports = [
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

export async function reportPrerequisiteResults(
  context: CommandContext,
  node: NodeView,
  instance: NodeInstanceId,
  draw: number,
): Promise<string> {
  const { fixture } = context;
  const results = pickAt(prerequisiteReports, draw).map(([name, ok]) => ({ name, ok }));
  const sender = { node_id: node.node_id, node_instance_id: instance };
  const status = await reportPrerequisites(fixture.db, sender, results, now(fixture.clock), fixture.environment);
  return `reports ${results.map(({ name, ok }) => `${name} ${ok ? 'met' : 'missing'}`)} → ${status ?? 'fenced'}`;
}

export async function reportBootStage(
  context: CommandContext,
  node: NodeView,
  instance: NodeInstanceId,
  draw: number,
): Promise<string> {
  const { fixture } = context;
  const name = `stage-${Math.floor(draw * 4)}`;
  const ids = { node_id: node.node_id, node_instance_id: instance, correlation_id: null };
  await storeBootStages(fixture.db, ids, [{ name, seconds: 1 }], now(fixture.clock), fixture.environment);
  return `reports boot ${name}`;
}

async function runTask(
  context: CommandContext,
  { node_id, node_instance_id }: NodeView,
  draw: number,
): Promise<string> {
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
    const task = await leaseNext(tx, node_instance_id, moment, 'all');
    if (!task || draw > 0.8) return task ? 'leases a task and does not finish it' : 'has no task';
    const status = draw < 0.7 ? 'succeeded' : 'failed';
    return `task ${status}: ${await answerTask(tx, task.task_id, node_instance_id, { status }, moment)}`;
  });
}

/** The names of the machines that join a sequence's own pool. */
export const joinPoolMachines = ['m-0', 'm-1'];

type AgentCommand = (context: CommandContext, turn: Turn) => Promise<string>;

export const agentCommands = {
  'report-status': async (context, { node, draws }) => {
    const { node_instance_id } = mustHave(node);
    addBeat(context, node_instance_id);
    return reportStatus(context, mustHave(node), node_instance_id, draws.variant);
  },
  register: (context, { node, draws }) => {
    const { node_instance_id } = mustHave(node);
    const base_url = draws.variant < 0.5 ? { base_url: 'http://192.0.2.1' } : {};
    return registerAgent(context, {
      enrollment_token: enrollmentTokenOf(context, mustHave(node), node_instance_id),
      version: '1',
      ...base_url,
    });
  },
  'register-again': (context, { node }) => registerAgain(context, mustHave(node).node_instance_id),
  join: (context, { sequence: { life, pool, index, digit }, draws }) => {
    const name = life === 'join-pool' ? pickAt(joinPoolMachines, draws.variant) : machineName(index);
    return registerAgent(context, { join_token: joinSecret(pool), name, version: '1', labels: { digit } });
  },
  'report-prerequisites': (context, { node, draws }) =>
    reportPrerequisiteResults(context, mustHave(node), mustHave(node).node_instance_id, draws.variant),
  'boot-stage': (context, { node, draws }) =>
    reportBootStage(context, mustHave(node), mustHave(node).node_instance_id, draws.variant),
  task: (context, { node, draws }) => runTask(context, mustHave(node), draws.variant),
} as const satisfies Record<string, AgentCommand>;

/** Saves probe results in one batch, as the prober does. */
export async function saveProbes({ fixture }: CommandContext, turns: Turn[]): Promise<void> {
  const results = turns.map((turn) => {
    const { node_id, node_instance_id } = mustHave(turn.node);
    const ok = turn.draws.variant < 0.7;
    turn.log(ok ? 'answers a probe' : 'does not answer a probe');
    return { node_id, node_instance_id, ok, detail: 'simulated' };
  });
  await saveProbeResults(fixture.db, results, now(fixture.clock));
}
