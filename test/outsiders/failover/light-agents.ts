/**
 * Agents without a workload, all in this process, over the real protocol: they register, send
 * heartbeats and answer pings. They record when they sent a heartbeat, so that a verdict can be
 * compared with what the machine did.
 */
import { newKeyPair, publicKeyOf, signatureOf } from '../../../src/agent/connection/keys.ts';
import { addJitter } from '../../../src/base/backoff.ts';
import { pause, systemClock } from '../../../src/base/clock.ts';
import { type Client, RequestRefused } from '../../../src/contract/client.ts';
import type { TestServer } from '../../support/server.ts';

/** The longest wait for an answer, and the longest pause after a failure, of our agent. */
const answerMs = 4_500;
const retryMs = 4_000;
const registeredAtOnce = 10;

export interface LightAgent {
  node_id: string;
  node_instance_id: string;
  private_key: string;
  /** The times of all heartbeats, answered or not, by the wall clock. */
  sentMs: number[];
  /** Null while the agent lives. */
  diedMs: number | null;
}

export interface LightAgents {
  agents: readonly LightAgent[];
  counts: { answered: number; unanswered: number };
  /** Refusals that do not ask the agent to repeat the heartbeat. */
  refusals: string[];
  /** The agent sends no more heartbeats, as if its machine had lost its power. */
  die(agent: LightAgent): void;
  stop(): void;
}

const isRefusal = (error: unknown): error is RequestRefused =>
  error instanceof RequestRefused && error.problem.status < 500;

/** Takes the waiting task, and sends its result until the server answers. */
async function answerTask(client: Client, { node_instance_id, private_key }: LightAgent): Promise<void> {
  const { task } = await client.call('agent-task-next', { query: { wait: 0, idle: true } });
  if (!task) return;
  const outcome = { status: 'succeeded', result: { nonce: task.params.nonce ?? '' } } as const;
  const signature = signatureOf(private_key, { task_id: task.task_id, node_instance_id, ...outcome });
  for (;;) {
    try {
      await client.call('agent-task-result', { params: { id: task.task_id }, body: { ...outcome, signature } });
      return;
    } catch (error) {
      if (isRefusal(error)) throw error;
      await pause(systemClock, retryMs);
    }
  }
}

export async function startLightAgents(server: TestServer, pool: string, count: number): Promise<LightAgents> {
  const { token: join_token } = await server.client.call('join-token-create', { params: { pool } });
  const agents: LightAgent[] = [];
  const counts = { answered: 0, unanswered: 0 };
  const refusals: string[] = [];
  let isStopped = false;

  const start = (agent: LightAgent, credential: string, firstSeconds: number) => {
    const client = server.as(credential);
    const isOver = () => isStopped || agent.diedMs !== null;
    let intervalMs = 1000 * firstSeconds;
    const beat = async () => {
      if (isOver()) return;
      agent.sentMs.push(systemClock.nowMs());
      let pauseMs = intervalMs;
      try {
        const body = { status: 'ready', health_score: 100, error_rate: 0, active_tasks: 0 } as const;
        const reply = await client.call('agent-heartbeat', { body, signal: AbortSignal.timeout(answerMs) });
        counts.answered++;
        intervalMs = 1000 * reply.heartbeat_interval_seconds;
        pauseMs = intervalMs;
        if (reply.tasks_waiting > 0) await answerTask(client, agent);
      } catch (error) {
        if (isOver()) return;
        counts.unanswered++;
        pauseMs = Math.min(retryMs, intervalMs);
        if (isRefusal(error)) refusals.push(error.message);
      }
      systemClock.after(addJitter(pauseMs), () => void beat());
    };
    systemClock.after(Math.random() * intervalMs, () => void beat());
  };

  const register = async (name: string) => {
    const private_key = newKeyPair();
    const { node_id, node_instance_id, credential, heartbeat_interval_seconds } = await server
      .as('')
      .call('agent-register', {
        body: { join_token, name, version: 'light', agent_public_key: publicKeyOf(private_key) },
      });
    const agent: LightAgent = { node_id, node_instance_id, private_key, sentMs: [], diedMs: null };
    agents.push(agent);
    start(agent, credential ?? '', heartbeat_interval_seconds);
  };
  const names = Array.from({ length: count }, (_, index) => `light-${index}`);
  while (names.length > 0) await Promise.all(names.splice(0, registeredAtOnce).map(register));

  return {
    agents,
    counts,
    refusals,
    die(agent) {
      agent.diedMs = systemClock.nowMs();
    },
    stop() {
      isStopped = true;
    },
  };
}
