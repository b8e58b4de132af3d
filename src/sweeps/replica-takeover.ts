/** `replica-takeover`: renews this replica's lease, finds dead replicas and goes on with their operations. */
import { secondsLater } from '../base/clock.ts';
import {
  buryReplicas,
  leaseSeconds,
  type ReplicaRow,
  renewEverySeconds,
  renewLease,
  replicasWithOpenOperations,
  unfinishedReplicas,
} from '../store/replicas.ts';
import type { SweepServices } from './registry.ts';
import type { Sweep } from './sweep.ts';

/** Why a replica counts as dead: its process is gone from this very host, or its lease ran out. */
function deathOf(replica: ReplicaRow, services: SweepServices, now: Date): string | undefined {
  if (replica.host === services.host && !services.isProcessAlive(replica.pid))
    return `its process ${replica.pid} is gone`;
  return replica.lease_until < now ? 'its lease ran out' : undefined;
}

export const replicaTakeover = (services: SweepServices): Sweep => ({
  name: 'replica-takeover',
  every_seconds: renewEverySeconds,
  async run(now) {
    const { db, executor, engine } = services;
    const alive = await renewLease(db, executor.replica_id, secondsLater(now, leaseSeconds));
    if (!alive) throw new Error('this replica was declared dead by another one and must restart');
    const others = (await unfinishedReplicas(db)).filter((replica) => replica.replica_id !== executor.replica_id);
    const dead = others.flatMap((replica) => {
      const why = deathOf(replica, services, now);
      return why ? [{ replica_id: replica.replica_id, why }] : [];
    });
    const buried = dead.length > 0 ? await buryReplicas(db, dead, executor.replica_id, now) : [];
    // Also those whose taker died before it was done; recovering a run twice executes it once.
    const orphaned = new Set([...buried, ...(await replicasWithOpenOperations(db))]);
    return { decided: orphaned.size > 0 ? await engine.recover([...orphaned]) : 0 };
  },
});
