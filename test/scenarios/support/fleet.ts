/**
 * Simulates many external machines. Their heartbeats are sent in batches, as a relay sends them,
 * and each machine can go silent.
 */
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { Labels } from '../../../src/contract/primitives.ts';
import { callRoute } from '../../api/support/calls.ts';
import type { ScenarioContext } from './scenario.ts';

export interface FleetMachine {
  name: string;
  node_id: string;
  credential: string;
}

export interface BeatingFleet {
  machines: FleetMachine[];
  /** Stops the heartbeats of these machines. */
  silence(machines: readonly FleetMachine[]): void;
  /** Resumes the heartbeats of these machines. */
  resume(machines: readonly FleetMachine[]): void;
  end(): Promise<void>;
}

const maxBatch = 1000;

export async function sendBeats(url: string, credentials: readonly string[], status?: string): Promise<void> {
  for (let from = 0; from < credentials.length; from += maxBatch) {
    const beats = credentials
      .slice(from, from + maxBatch)
      .map((credential) => ({ credential, ...(status && { status }) }));
    const answer = await callRoute(url, 'agent-heartbeats', { body: { beats } });
    if (answer.status !== 200) throw new Error(`the heartbeats were refused: ${answer.status} ${answer.text}`);
  }
}

async function join(context: ScenarioContext, join_token: string, name: string, labels: Labels): Promise<FleetMachine> {
  const answer = await callRoute(context.server.url, 'agent-register', {
    body: { join_token, name, version: 'test', labels },
  });
  if (answer.status !== 201) throw new Error(`${name} could not join: ${answer.status} ${answer.text}`);
  return { name, node_id: String(answer.body.node_id), credential: String(answer.body.credential) };
}

/** Joins `count` machines to the pool. They report ready and keep sending heartbeats. */
export async function beatingFleet(
  context: ScenarioContext,
  pool: string,
  count: number,
  every_seconds: number,
  labels: Labels = {},
): Promise<BeatingFleet> {
  const { token } = await context.client.call('join-token-create', { params: { pool } });
  const names = Array.from({ length: count }, (_, i) => `${pool}-${i + 1}`);
  const machines = await Promise.all(names.map((name) => join(context, token ?? '', name, labels)));
  const silentMachines = new Set<string>();
  let isOver = false;
  const beat = () =>
    sendBeats(
      context.server.url,
      machines.flatMap(({ credential }) => (silentMachines.has(credential) ? [] : [credential])),
      'ready',
    );
  await beat();
  const loop = (async () => {
    while (!isOver) {
      await pause(systemClock, every_seconds * 1000);
      if (!isOver) await beat();
    }
  })();
  // `end` reports the error; until then the story itself notices missing heartbeats.
  loop.catch(() => {});
  return {
    machines,
    silence: (some) => {
      for (const { credential } of some) silentMachines.add(credential);
    },
    resume: (some) => {
      for (const { credential } of some) silentMachines.delete(credential);
    },
    async end() {
      isOver = true;
      await loop;
    },
  };
}
