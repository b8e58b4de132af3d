/**
 * `replica-takeover`: renews this replica's lease, detects dead replicas and resumes their
 * operations.
 */
import { now as present, secondsLater } from '../../base/clock.ts';
import { listCancelling } from '../../store/operations/executions.ts';
import {
  declareReplicasDead,
  findEndedReplicas,
  leaseSeconds,
  listUnfinishedReplicas,
  type ReplicaRow,
  renewEverySeconds,
  renewLease,
} from '../../store/operations/replicas.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** Spreads the replicas that learn of an end, because one of them is enough to take over. */
const maxSpreadSeconds = 0.5;

/** Returns why a replica counts as dead, or undefined if it may be alive. */
function causeOfDeath(replica: ReplicaRow, services: SweepServices, now: Date): string | undefined {
  if (replica.host === services.host && !services.isProcessAlive(replica.pid))
    return `its process ${replica.pid} is gone`;
  return replica.lease_until < now && services.ingest.isClockSettled() ? 'its lease expired' : undefined;
}

export const replicaTakeover = (services: SweepServices): Sweep => ({
  name: 'replica-takeover',
  runsAfterRestore: true,
  every_seconds: renewEverySeconds,
  dueTimeFrom: ({ kind }) =>
    kind === 'replica.ended' ? secondsLater(present(services.clock), maxSpreadSeconds * Math.random()) : undefined,
  async run(now) {
    const { db, executor, engine } = services;
    const isAlive = await renewLease(db, executor.replica_id, secondsLater(now, leaseSeconds));
    if (!isAlive) {
      const error = new Error('another replica declared this one dead and continues its operations');
      services.onDeclaredDead(error);
      throw error;
    }
    const others = (await listUnfinishedReplicas(db)).filter((replica) => replica.replica_id !== executor.replica_id);
    const dead = others.flatMap((replica) => {
      const why = causeOfDeath(replica, services, now);
      return why ? [{ replica_id: replica.replica_id, why }] : [];
    });
    if (dead.length > 0) await declareReplicasDead(db, dead, executor.replica_id, now);
    if (services.restoration.isObserving()) return { decided: 0 };
    // Asks the engine for all executors with runs, not only those just declared dead: an earlier
    // takeover or start may have been interrupted.
    const endedReplicas = await findEndedReplicas(db, await engine.executorsWithRuns());
    if (endedReplicas.length === 0) return { decided: 0 };
    // The replica may have ended before its run learned of the cancellation.
    for (const { workflow_id, attempt } of await listCancelling(db, endedReplicas))
      await engine.cancel(workflow_id, attempt);
    return { decided: await engine.recover(endedReplicas) };
  },
});
