/** Two servers on one database that are killed in turn and restarted at their addresses. */
import { pause, systemClock } from '../../../src/base/clock.ts';
import { freePort } from '../../support/free-port.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';

export interface Replicas {
  /** The servers started last; one of them may be dead right now. */
  both: [SpawnedServer, SpawnedServer];
  kills(): number;
  /** Kills one at this interval until `endMs` of the monotonic clock, and leaves both running. */
  killInTurn(everySeconds: number, endMs: number): Promise<void>;
  stop(): Promise<void>;
}

export async function startReplicas(): Promise<Replicas> {
  const ports = [await freePort(), await freePort()] as const;
  // The first one created the database and drops it at the very end.
  const first = await spawnServer({ port: ports[0] });
  const all = [first, await spawnServer({ beside: first, port: ports[1] })];
  const both = [...all] as [SpawnedServer, SpawnedServer];
  let kills = 0;
  return {
    both,
    kills: () => kills,
    async killInTurn(everySeconds, endMs) {
      for (let turn = 0; systemClock.monotonicMs() + 1000 * everySeconds < endMs; turn++) {
        await pause(systemClock, 1000 * everySeconds);
        const victim = turn % 2 === 0 ? 1 : 0;
        await both[victim].kill();
        kills++;
        both[victim] = await spawnServer({ beside: first, port: ports[victim] });
        all.unshift(both[victim]);
      }
    },
    async stop() {
      for (const server of all.filter((each) => each !== first)) await server.stop();
      await first.stop();
    },
  };
}
