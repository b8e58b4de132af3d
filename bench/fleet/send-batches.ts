/**
 * Sends heartbeats in batches at a given rate to one or several replicas. Measures the CPU use of
 * the replicas, of the database and of this sender.
 */
import { Agent } from 'node:http';
import { pause, systemClock } from '../../src/base/clock.ts';
import { credentialOf } from '../harness/resting-fleet.ts';
import type { Replica } from '../harness/server-process.ts';
import { post } from './post.ts';
import { type CpuUsage, cpuUsageBetween, readProcessors } from './processors.ts';

const batch = 100;
/** Batches in flight for each replica. */
const maxInFlight = 16;
const report = '"status":"ready","health_score":100,"error_rate":0,"active_tasks":0';
/**
 * Consecutive turns go to nodes that are this far apart in the table. The distance is prime, so
 * that every node gets a turn.
 */
const stride = 7_919;

export interface BatchLoadResult {
  rate: number;
  answered_per_second: number;
  use: CpuUsage;
}

export interface BatchLoad {
  replicas: readonly Replica[];
  /** Process id of the database. */
  postmaster: number;
  nodes: number;
  /** Heartbeats per second. */
  rate: number;
  seconds: number;
  /** Turns are numbered; each is one heartbeat of one node. Start where the last load ended. */
  firstTurn: number;
}

/**
 * Pauses while too many batches await their answers, and then catches up with the rate.
 * Batches that are still due when the time is over are not sent.
 */
export async function sendBatches(load: BatchLoad): Promise<BatchLoadResult> {
  const { replicas, postmaster, nodes, rate, seconds, firstTurn } = load;
  const sockets = new Agent({ keepAlive: true, maxSockets: maxInFlight });
  const pids = replicas.map(({ pid }) => pid);
  const before = readProcessors(pids, postmaster);
  const startedMs = systemClock.monotonicMs();
  let [sent, answered, waiting] = [0, 0, 0];
  const beatOf = (turn: number) => `{"credential":"${credentialOf(1 + ((turn * stride) % nodes))}",${report}}`;
  const send = async (first: number, url: string) => {
    waiting++;
    const beats = Array.from({ length: batch }, (_, place) => beatOf(first + place));
    try {
      const { status } = await post(new URL('/v1/agent/heartbeats', url), sockets, `{"beats":[${beats.join(',')}]}`);
      if (status === 200) answered += batch;
    } finally {
      waiting--;
    }
  };
  for (let elapsed = 0; elapsed < seconds; elapsed = (systemClock.monotonicMs() - startedMs) / 1000) {
    while (sent < rate * elapsed && waiting < maxInFlight * replicas.length) {
      const url = replicas[(sent / batch) % replicas.length]?.url ?? '';
      send(firstTurn + sent, url).catch(() => {});
      sent += batch;
    }
    await pause(systemClock, 5);
  }
  const after = readProcessors(pids, postmaster);
  while (waiting > 0) await pause(systemClock, 5);
  sockets.destroy();
  const elapsedSeconds = (after.atMs - before.atMs) / 1000;
  return { rate, answered_per_second: answered / elapsedSeconds, use: cpuUsageBetween(before, after) };
}
