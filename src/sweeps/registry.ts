/**
 * Lists every sweep, in the order of their first runs. A new sweep needs a file of its own, and an
 * import and an entry here.
 */
import { createSealer } from '../store/integrity/sealer.ts';
import { drift } from './drift/drift.ts';
import { counts } from './jobs/counts.ts';
import { evidenceSeal } from './jobs/evidence-seal.ts';
import { housekeeping } from './jobs/housekeeping.ts';
import { learnedBudget } from './jobs/learned-budget.ts';
import { operationOverdue } from './jobs/operation-overdue.ts';
import { operationStart } from './jobs/operation-start.ts';
import { replicaTakeover } from './jobs/replica-takeover.ts';
import { rowRetention } from './jobs/row-retention.ts';
import { taskLease } from './jobs/task-lease.ts';
import { absence } from './rules/absence.ts';
import { cleanDeadline } from './rules/clean-deadline.ts';
import { drainDeadline } from './rules/drain-deadline.ts';
import { drained } from './rules/drained.ts';
import { liveness } from './rules/liveness.ts';
import { offlineDeadline } from './rules/offline-deadline.ts';
import { probePromotes } from './rules/probe-promotes.ts';
import { provisionDeadline } from './rules/provision-deadline.ts';
import { queueDeadline } from './rules/queue-deadline.ts';
import { releaseDeadline } from './rules/release-deadline.ts';
import { releaseRetry } from './rules/release-retry.ts';
import { rescueOver } from './rules/rescue-over.ts';
import { startDeadline } from './rules/start-deadline.ts';
import { stuckStarting } from './rules/stuck-starting.ts';
import type { SweepServices } from './runner/services.ts';
import type { Sweep } from './runner/sweep.ts';
import { bootShift } from './watchers/boot-shift.ts';
import { brakeWatch } from './watchers/brake-watch.ts';
import { ingestWatch } from './watchers/ingest-watch.ts';
import { joinTokens } from './watchers/join-tokens.ts';
import { observation } from './watchers/observation.ts';
import { orphans } from './watchers/orphans.ts';
import { prober } from './watchers/prober.ts';
import { repeatFailure } from './watchers/repeat-failure.ts';
import { restoredMachines } from './watchers/restored-machines.ts';
import { tokenExpiry } from './watchers/token-expiry.ts';

export function sweepRegistry(services: SweepServices): Sweep[] {
  const sealer = createSealer(services);
  return [
    // Record gaps in which no heartbeats arrived, take over from dead replicas, pause launches
    // during a mass failure, and compare machines with their rows after a restore.
    ingestWatch(services),
    replicaTakeover(services),
    brakeWatch(services),
    restoredMachines(services),
    operationStart(services),
    // Decide whether a booting machine becomes ready or fails. `prober` also probes silent ones.
    provisionDeadline(services),
    prober(services),
    probePromotes(services),
    stuckStarting(services),
    startDeadline(services),
    // `observation` reads the state of agentless machines from their providers, and `absence` asks
    // whether an offline or failed machine still exists. The other two move silent nodes to offline
    // and then to failed.
    observation(services),
    liveness(services),
    absence(services),
    offlineDeadline(services),
    // End drains and clean-ups.
    drained(services),
    drainDeadline(services),
    cleanDeadline(services),
    queueDeadline(services),
    // Destroys a failed machine when the time in which it could be rescued is over.
    rescueOver(services),
    releaseDeadline(services),
    releaseRetry(services),
    // Open findings. `drift` may also repair or quarantine the node, and `bootShift` reports that
    // the boots of a pool have become slower.
    drift(services),
    repeatFailure(services),
    bootShift(services),
    joinTokens(services),
    tokenExpiry(services),
    // Background jobs.
    learnedBudget(services),
    operationOverdue(services),
    taskLease(services),
    orphans(services),
    housekeeping(services, sealer),
    rowRetention(services),
    evidenceSeal(services, sealer),
    counts(services),
  ];
}
