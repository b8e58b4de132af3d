/** Many machines of an external pool, played over one connection: they beat together, as a relay sends it, and each can fall silent. */
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { Labels } from '../../../src/contract/primitives.ts';
import { callRoute } from '../../api/support/calls.ts';
import type { World } from './scenario.ts';

export interface FleetMachine {
  name: string;
  node_id: string;
  credential: string;
}

export interface BeatingFleet {
  machines: FleetMachine[];
  /** From the next beat on these say nothing. */
  hush(machines: readonly FleetMachine[]): void;
  /** From the next beat on these speak again. */
  speak(machines: readonly FleetMachine[]): void;
  end(): Promise<void>;
}

const mostInABatch = 1000;

export async function sendBeats(url: string, credentials: readonly string[], status?: string): Promise<void> {
  for (let from = 0; from < credentials.length; from += mostInABatch) {
    const beats = credentials
      .slice(from, from + mostInABatch)
      .map((credential) => ({ credential, ...(status && { status }) }));
    const answer = await callRoute(url, 'agent-heartbeats', { body: { beats } });
    if (answer.status !== 200) throw new Error(`the beats were refused: ${answer.status} ${answer.text}`);
  }
}

async function join(world: World, join_token: string, name: string, labels: Labels): Promise<FleetMachine> {
  const answer = await callRoute(world.server.url, 'agent-register', {
    body: { join_token, name, version: 'test', labels },
  });
  if (answer.status !== 201) throw new Error(`${name} could not join: ${answer.status} ${answer.text}`);
  return { name, node_id: String(answer.body.node_id), credential: String(answer.body.credential) };
}

/** So many machines that joined the pool, are ready and beat. */
export async function beatingFleet(
  world: World,
  pool: string,
  count: number,
  every_seconds: number,
  labels: Labels = {},
): Promise<BeatingFleet> {
  const { token } = await world.client.call('join-token-create', { params: { pool } });
  const names = Array.from({ length: count }, (_, i) => `${pool}-${i + 1}`);
  const machines = await Promise.all(names.map((name) => join(world, token ?? '', name, labels)));
  const silent = new Set<string>();
  let over = false;
  const beat = () =>
    sendBeats(
      world.server.url,
      machines.flatMap(({ credential }) => (silent.has(credential) ? [] : [credential])),
      'ready',
    );
  await beat();
  const loop = (async () => {
    while (!over) {
      await pause(systemClock, every_seconds * 1000);
      if (!over) await beat();
    }
  })();
  // Told at the end; until then the story itself notices that nobody beats.
  loop.catch(() => {});
  return {
    machines,
    hush: (some) => {
      for (const { credential } of some) silent.add(credential);
    },
    speak: (some) => {
      for (const { credential } of some) silent.delete(credential);
    },
    async end() {
      over = true;
      await loop;
    },
  };
}
