/**
 * `replica-takeover`: renews this replica's lease, detects dead replicas and resumes their
 * operations.
 */
import { secondsLater } from '../../base/clock.ts';
import {
  declareReplicasDead,
  endedAmong,
  leaseSeconds,
  type ReplicaRow,
  renewEverySeconds,
  renewLease,
  unfinishedReplicas,
} from '../../store/operations/replicas.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/**
 * Returns why a replica counts as dead: its process is gone from this host, or its lease expired.
 */
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
    if (!alive) {
      const error = new Error('this replica was declared dead by another one, which goes on with its operations');
      services.onDeclaredDead(error);
      throw error;
    }
    const others = (await unfinishedReplicas(db)).filter((replica) => replica.replica_id !== executor.replica_id);
    const dead = others.flatMap((replica) => {
      const why = deathOf(replica, services, now);
      return why ? [{ replica_id: replica.replica_id, why }] : [];
    });
    if (dead.length > 0) await declareReplicasDead(db, dead, executor.replica_id, now);
    // Ask the engine, not our rows: it knows the executor of every run, even if a start or an
    // earlier takeover was interrupted.
    const orphaned = await endedAmong(db, await engine.executorsAtWork());
    return { decided: orphaned.length > 0 ? await engine.recover(orphaned) : 0 };
  },
});
