/**
 * Runs two servers on one database, kills them in turn, and restarts each on its old port. Also
 * restarts a server that ended itself, as a service manager would: a server that gets no CPU for
 * long is declared dead by the other.
 */
import { pause, systemClock } from '../../../src/base/clock.ts';
import { freePort } from '../../support/free-port.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';

export interface Replicas {
  /** The current process of each replica. One of them may have been killed a moment ago. */
  servers: [SpawnedServer, SpawnedServer];
  kills(): number;
  /** Kills a replica at this interval until `endMs` of the monotonic clock. Leaves both running. */
  killInTurn(everySeconds: number, endMs: number): Promise<void>;
  stop(): Promise<void>;
}

export async function startReplicas(): Promise<Replicas> {
  const ports = [await freePort(), await freePort()] as const;
  // The first server creates the database and drops it when it stops, so it stops last.
  const first = await spawnServer({ port: ports[0] });
  const startedServers = [first, await spawnServer({ beside: first, port: ports[1] })];
  const servers = [...startedServers] as [SpawnedServer, SpawnedServer];
  let kills = 0;
  let isStopping = false;
  const killedServers = new Set<SpawnedServer>();

  const start = async (index: 0 | 1) => {
    const server = await spawnServer({ beside: first, port: ports[index] });
    servers[index] = server;
    startedServers.unshift(server);
    restartWhenEnded(index, server);
  };
  const restartWhenEnded = (index: 0 | 1, server: SpawnedServer) => {
    server.ended.then(async () => {
      if (servers[index] !== server || isStopping || killedServers.has(server)) return;
      console.log(`replica ${index + 1} ended itself and is started again`);
      await start(index);
    });
  };
  for (const index of [0, 1] as const) restartWhenEnded(index, servers[index]);

  return {
    servers,
    kills: () => kills,
    async killInTurn(everySeconds, endMs) {
      for (let turn = 0; systemClock.monotonicMs() + 1000 * everySeconds < endMs; turn++) {
        await pause(systemClock, 1000 * everySeconds);
        const victim = turn % 2 === 0 ? 1 : 0;
        killedServers.add(servers[victim]);
        await servers[victim].kill();
        kills++;
        await start(victim);
      }
    },
    async stop() {
      isStopping = true;
      for (const server of startedServers.filter((each) => each !== first)) await server.stop();
      await first.stop();
    },
  };
}
