/**
 * Simulates agents: each registers, reports ready, sends heartbeats and runs tasks on the store.
 */
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { type Clock, now } from '../../../src/base/clock.ts';
import { type NodeId, type NodeInstanceId, newCorrelationId } from '../../../src/base/ids.ts';
import { canonicalJson } from '../../../src/contract/canonical-json.ts';
import { ApiProblem } from '../../../src/contract/errors/errors.ts';
import { isFenced, type NodeStatus } from '../../../src/lifecycle/model/states.ts';
import { register } from '../../../src/store/agents/register.ts';
import { recordReport } from '../../../src/store/agents/reports.ts';
import { answerTask, leaseNext, type TaskRow } from '../../../src/store/agents/tasks.ts';
import type { HeartbeatBuffer } from '../../../src/store/heartbeats/heartbeat-buffer.ts';
import type { Installation } from '../../../src/store/keys/installation.ts';
import type { Database } from '../../../src/store/pg/database.ts';
import type { TransitionEnvironment } from '../../../src/store/transitions/transition-rules.ts';
import type { Upstream } from './upstream.ts';

export const heartbeat = { interval_seconds: 10, stale_after_seconds: 30 };

interface Agent {
  pool: string;
  /** The token with which the agent registers. */
  token: { enrollment_token: string } | { join_token: string; name: string };
  key: KeyObject;
  public_key: string;
  node?: { node_id: NodeId; node_instance_id: NodeInstanceId };
  /** The time of the last heartbeat. */
  beat_ms: number;
  /** Whether the agent was fenced, refused or killed, or its machine stopped running. */
  hasEnded: boolean;
}

export interface Agents {
  /** Runs one turn of every live agent. */
  act(): Promise<void>;
  /** Adds the agent of a machine that no driver launched. */
  join(pool: string, join_token: string, name: string): void;
  /** Kills the current agents of the pool, like `kill -9`. */
  kill(pool: string): void;
  /** From now on the machines of the pool can be cleaned. */
  repair(pool: string): void;
}

interface AgentServices {
  db: Database;
  clock: Clock;
  environment: TransitionEnvironment;
  installation: Installation;
  beats: HeartbeatBuffer;
  upstream: Upstream;
}

const outcomeOf = (task: TaskRow, isDirty: boolean) =>
  task.type === 'release.clean' && isDirty
    ? { status: 'failed' as const, error: { code: 'disk_full', message: 'no space left on device' } }
    : {
        status: 'succeeded' as const,
        result: { nonce: task.params.nonce ?? null, checked: [{ what: 'the workspace', seen: 'empty' }] },
      };

export function createAgents({ db, clock, environment, installation, beats, upstream }: AgentServices): Agents {
  const agents = new Map<string, Agent>();
  const repairedPools = new Set<string>();

  const addAgent = (id: string, pool: string, token: Agent['token']) => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    const public_key = publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
    agents.set(id, { pool, token, key: privateKey, public_key, beat_ms: Number.NEGATIVE_INFINITY, hasEnded: false });
  };

  const registerAgent = async (agent: Agent) => {
    const context = { clock, now: now(clock), environment, installation, correlation_id: newCorrelationId() };
    const request = { ...agent.token, version: '1', agent_public_key: agent.public_key };
    try {
      const { node_id, node_instance_id } = await register(db, request, undefined, context);
      agent.node = { node_id, node_instance_id };
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      agent.hasEnded = true;
    }
  };

  const sendReport = async (agent: Agent, status: NodeStatus) => {
    if (!agent.node) return;
    const reports = { starting: { status: 'ready' }, failed: {}, offline: {} } as const;
    const report = reports[status as keyof typeof reports];
    if (!report) return;
    const sender = { ...agent.node, stale_seconds: heartbeat.stale_after_seconds };
    const outcome = await recordReport(db, sender, report, now(clock), environment);
    if (outcome.fenced) agent.hasEnded = true;
  };

  const runNextTask = (agent: Agent, status: NodeStatus, isDirty: boolean) =>
    db.transaction(async (tx) => {
      if (!agent.node) return;
      const { node_instance_id } = agent.node;
      const at = now(clock);
      const task = await leaseNext(tx, node_instance_id, at, isFenced(status) ? 'release' : 'all');
      if (!task) return;
      const outcome = outcomeOf(task, isDirty);
      const result = 'result' in outcome ? outcome.result : null;
      const signedText = canonicalJson({ task_id: task.task_id, node_instance_id, status: outcome.status, result });
      const signature = sign(null, Buffer.from(signedText), agent.key).toString('base64');
      await answerTask(tx, task.task_id, node_instance_id, { ...outcome, signature }, at);
    });

  const sendBeat = (agent: Agent, node_instance_id: NodeInstanceId) => {
    const received_ms = clock.nowMs();
    if (received_ms - agent.beat_ms < heartbeat.interval_seconds * 1000) return;
    agent.beat_ms = received_ms;
    const { interval_seconds, stale_after_seconds: stale_seconds } = heartbeat;
    beats.add({
      node_instance_id,
      received_ms,
      reported: null,
      has_assigned_interval: true,
      interval_seconds,
      stale_seconds,
    });
  };

  return {
    async act() {
      for (const machine of upstream.machines.values()) {
        const { node_instance_id, pool, enrollment_token } = machine;
        if (machine.state === 'running' && machine.behaviour !== 'mute' && !agents.has(node_instance_id))
          addAgent(node_instance_id, pool, { enrollment_token });
        const agent = agents.get(node_instance_id);
        if (agent && machine.state !== 'running') agent.hasEnded = true;
      }
      const liveAgents = [...agents].filter(([, { hasEnded }]) => !hasEnded);
      const rows = await db.query<{ id: NodeInstanceId; status: NodeStatus; tasks: number }>(
        `select node_instance_id as id, status,
           (
             select count(*)::int from tasks
             where tasks.node_instance_id = node.node_instance_id
               and tasks.status = 'queued'
           ) as tasks
         from nodes node`,
      );
      const byInstance = new Map(rows.map((row) => [row.id, row]));
      await Promise.all(
        liveAgents.map(async ([id, agent]) => {
          if (!agent.node) await registerAgent(agent);
          const row = agent.node && (byInstance.get(agent.node.node_instance_id) ?? { status: 'starting', tasks: 0 });
          if (!agent.node || !row) return;
          sendBeat(agent, agent.node.node_instance_id);
          await sendReport(agent, row.status as NodeStatus);
          const isDirty =
            upstream.machines.get(id as NodeInstanceId)?.behaviour === 'dirty' && !repairedPools.has(agent.pool);
          if (row.tasks > 0) await runNextTask(agent, row.status as NodeStatus, isDirty);
        }),
      );
      await beats.flush();
    },
    join: (pool, join_token, name) => addAgent(`${pool} ${name}`, pool, { join_token, name }),
    kill(pool) {
      for (const agent of agents.values()) if (agent.pool === pool) agent.hasEnded = true;
    },
    repair: (pool) => repairedPools.add(pool),
  };
}
