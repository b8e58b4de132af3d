/**
 * Sends heartbeats in batches at a given rate to one or several replicas, and measures the CPU use
 * of each party.
 */
import { Agent } from 'node:http';
import { pause, systemClock } from '../../src/base/clock.ts';
import { credentialOf } from '../harness/resting-fleet.ts';
import type { Replica } from '../harness/server-process.ts';
import { post } from './post.ts';
import { readProcessors, type Use, useBetween } from './processors.ts';

const batch = 100;
const inFlight = 16;
const report = '"status":"ready","health_score":100,"error_rate":0,"active_tasks":0';
/** Prime, so that consecutive nodes lie apart in the table and every node has a turn. */
const stride = 7_919;

export interface Offered {
  rate: number;
  answered: number;
  use: Use;
}

export interface Offer {
  replicas: readonly Replica[];
  /** Process id of the database. */
  postmaster: number;
  nodes: number;
  /** Heartbeats per second. */
  rate: number;
  seconds: number;
  /** The first node to beat. */
  from: number;
}

/** Batches that cannot be sent in time, because too many await answers, are dropped. */
export async function offer({ replicas, postmaster, nodes, rate, seconds, from }: Offer): Promise<Offered> {
  const sockets = new Agent({ keepAlive: true, maxSockets: inFlight });
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
    while (sent < rate * elapsed && waiting < inFlight * replicas.length) {
      const url = replicas[(sent / batch) % replicas.length]?.url ?? '';
      send(from + sent, url).catch(() => {});
      sent += batch;
    }
    await pause(systemClock, 5);
  }
  const after = readProcessors(pids, postmaster);
  while (waiting > 0) await pause(systemClock, 5);
  sockets.destroy();
  return { rate, answered: answered / ((after.atMs - before.atMs) / 1000), use: useBetween(before, after) };
}
