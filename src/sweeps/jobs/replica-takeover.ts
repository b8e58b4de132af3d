/**
 * `replica-takeover`: renews this replica's lease, detects dead replicas and resumes their
 * operations.
 */
import { now as present, secondsBetween, secondsLater } from '../../base/clock.ts';
import type { ReplicaId } from '../../base/ids.ts';
import { listCancelling } from '../../store/operations/executions.ts';
import {
  declareReplicasDead,
  findEndedReplicas,
  leaseSeconds,
  listUnfinishedReplicas,
  type ReplicaRow,
  renewEverySeconds,
  renewReplicaLease,
} from '../../store/operations/replicas.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** After `replica.ended` each replica waits for a random part of this: one takeover is enough. */
const maxSpreadSeconds = 0.5;

/** The lease of another replica, as this replica has observed it. */
interface SeenLease {
  lease_until: Date;
  /** For how long this replica renewed its own lease while the other one renewed none. */
  unrenewed_seconds: number;
}

/**
 * An expired lease alone is no sign of death: if the database was away, or a failover lost
 * renewals, no replica could renew. A pause of this replica counts as one regular interval at most.
 */
function watchLease(seen: SeenLease | undefined, { lease_until }: ReplicaRow, pauseSeconds: number): SeenLease {
  if (seen?.lease_until.getTime() !== lease_until.getTime()) return { lease_until, unrenewed_seconds: 0 };
  const countedSeconds = Math.min(Math.max(pauseSeconds, 0), renewEverySeconds);
  return { lease_until, unrenewed_seconds: seen.unrenewed_seconds + countedSeconds };
}

export function replicaTakeover(services: SweepServices): Sweep {
  let lastRenewal: Date | undefined;
  let leases = new Map<ReplicaId, SeenLease>();

  /** Returns why a replica counts as dead, or undefined if it may be alive. */
  const causeOfDeath = (replica: ReplicaRow, now: Date): string | undefined => {
    if (replica.host === services.host && !services.isProcessAlive(replica.pid))
      return `its process ${replica.pid} is gone`;
    const unrenewedSeconds = leases.get(replica.replica_id)?.unrenewed_seconds ?? 0;
    const isExpired = replica.lease_until < now && unrenewedSeconds >= leaseSeconds;
    return isExpired && services.ingest.isClockSettled() ? 'its lease expired' : undefined;
  };

  return {
    name: 'replica-takeover',
    runsAfterRestore: true,
    every_seconds: renewEverySeconds,
    dueTimeFrom: ({ kind }) =>
      kind === 'replica.ended' ? secondsLater(present(services.clock), maxSpreadSeconds * Math.random()) : undefined,
    async run(now) {
      const { db, executor, engine } = services;
      const isAlive = await renewReplicaLease(db, executor.replica_id, secondsLater(now, leaseSeconds));
      if (!isAlive) {
        const error = new Error('another replica declared this one dead and continues its operations');
        services.onDeclaredDead(error);
        throw error;
      }
      const others = (await listUnfinishedReplicas(db)).filter((replica) => replica.replica_id !== executor.replica_id);
      const pauseSeconds = lastRenewal ? secondsBetween(lastRenewal, now) : 0;
      lastRenewal = now;
      leases = new Map(
        others.map((other) => [other.replica_id, watchLease(leases.get(other.replica_id), other, pauseSeconds)]),
      );
      const dead = others.flatMap((replica) => {
        const why = causeOfDeath(replica, now);
        return why ? [{ replica_id: replica.replica_id, why }] : [];
      });
      if (dead.length > 0) await declareReplicasDead(db, dead, executor.replica_id, now);
      if (services.restoration.isObserving()) return { decided: 0 };
      // Asks the engine for all executors with runs, not only those just declared dead: an earlier
      // takeover or start may have been interrupted.
      const endedReplicas = await findEndedReplicas(db, await engine.executorsWithRuns());
      if (endedReplicas.length === 0) return { decided: 0 };
      // The replica may have ended before it could pass the cancellation to the run.
      for (const { workflow_id, attempt } of await listCancelling(db, endedReplicas))
        await engine.cancel(workflow_id, attempt);
      return { decided: await engine.recover(endedReplicas) };
    },
  };
}
