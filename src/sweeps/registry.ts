/**
 * Lists every sweep, in the order of their first runs. A new rule is one file and one line here.
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
import { tokenExpiry } from './watchers/token-expiry.ts';

export function sweepRegistry(services: SweepServices): Sweep[] {
  const sealer = createSealer(services);
  return [
    ingestWatch(services),
    replicaTakeover(services),
    brakeWatch(services),
    operationStart(services),
    provisionDeadline(services),
    prober(services),
    probePromotes(services),
    stuckStarting(services),
    startDeadline(services),
    observation(services),
    liveness(services),
    absence(services),
    offlineDeadline(services),
    drained(services),
    drainDeadline(services),
    cleanDeadline(services),
    queueDeadline(services),
    rescueOver(services),
    releaseDeadline(services),
    releaseRetry(services),
    drift(services),
    repeatFailure(services),
    bootShift(services),
    joinTokens(services),
    tokenExpiry(services),
    learnedBudget(services),
    operationOverdue(services),
    taskLease(services),
    orphans(services),
    housekeeping(services, sealer),
    evidenceSeal(services, sealer),
    counts(services),
  ];
}
