/**
 * `replica-takeover`: renews this replica's lease, detects dead replicas and resumes their
 * operations.
 */
import { moment, now as present, secondsBetween, secondsLater } from '../../base/clock.ts';
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

/** Spreads the replicas that learn of an end, because one of them is enough to take over. */
const maxSpreadSeconds = 0.5;

/** If this replica could not renew its lease for longer, perhaps no replica could. */
const maxRenewalSeconds = 2 * renewEverySeconds;

interface Renewal {
  at: Date;
  lease_until: Date;
}

/**
 * Whether the other leases may have expired without any fault of their holders: the store was away,
 * or a failover lost renewals, so that the lease that this replica wrote last is gone.
 */
const wereRenewalsLost = (last: Renewal, former_lease_until: Date, now: Date): boolean =>
  secondsBetween(last.at, now) > maxRenewalSeconds || former_lease_until.getTime() !== last.lease_until.getTime();

export function replicaTakeover(services: SweepServices): Sweep {
  let last: Renewal | undefined;
  /** Before this time an expired lease is no sign of death, because its holder may renew it yet. */
  let trustsLeasesFrom = moment(0);

  /** Returns why a replica counts as dead, or undefined if it may be alive. */
  const causeOfDeath = (replica: ReplicaRow, now: Date): string | undefined => {
    if (replica.host === services.host && !services.isProcessAlive(replica.pid))
      return `its process ${replica.pid} is gone`;
    const isTrusted = now >= trustsLeasesFrom && services.ingest.isClockSettled();
    return replica.lease_until < now && isTrusted ? 'its lease expired' : undefined;
  };

  return {
    name: 'replica-takeover',
    runsAfterRestore: true,
    every_seconds: renewEverySeconds,
    dueTimeFrom: ({ kind }) =>
      kind === 'replica.ended' ? secondsLater(present(services.clock), maxSpreadSeconds * Math.random()) : undefined,
    async run(now) {
      const { db, executor, engine } = services;
      const lease_until = secondsLater(now, leaseSeconds);
      const formerLease = await renewReplicaLease(db, executor.replica_id, lease_until);
      if (!formerLease) {
        const error = new Error('another replica declared this one dead and continues its operations');
        services.onDeclaredDead(error);
        throw error;
      }
      if (last && wereRenewalsLost(last, formerLease, now)) trustsLeasesFrom = lease_until;
      last = { at: now, lease_until };
      const others = (await listUnfinishedReplicas(db)).filter((replica) => replica.replica_id !== executor.replica_id);
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
      // The replica may have ended before its run learned of the cancellation.
      for (const { workflow_id, attempt } of await listCancelling(db, endedReplicas))
        await engine.cancel(workflow_id, attempt);
      return { decided: await engine.recover(endedReplicas) };
    },
  };
}
