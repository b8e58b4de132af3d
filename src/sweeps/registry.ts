/** Every sweep there is, in the order in which they are asked. A new rule is one file and one line here. */

import { createSealer } from '../store/integrity/sealer.ts';
import { absence } from './absence.ts';
import { bootShift } from './boot-shift.ts';
import { brakeWatch } from './brake-watch.ts';
import { cleanDeadline } from './clean-deadline.ts';
import { counts } from './counts.ts';
import { drainDeadline } from './drain-deadline.ts';
import { drained } from './drained.ts';
import { drift } from './drift.ts';
import { evidenceSeal } from './evidence-seal.ts';
import { housekeeping } from './housekeeping.ts';
import { ingestWatch } from './ingest-watch.ts';
import { joinTokens } from './join-tokens.ts';
import { learnedBudget } from './learned-budget.ts';
import { liveness } from './liveness.ts';
import { observation } from './observation.ts';
import { offlineDeadline } from './offline-deadline.ts';
import { operationOverdue } from './operation-overdue.ts';
import { operationStart } from './operation-start.ts';
import { orphans } from './orphans.ts';
import { probePromotes } from './probe-promotes.ts';
import { prober } from './prober.ts';
import { provisionDeadline } from './provision-deadline.ts';
import { queueDeadline } from './queue-deadline.ts';
import { releaseDeadline } from './release-deadline.ts';
import { releaseRetry } from './release-retry.ts';
import { repeatFailure } from './repeat-failure.ts';
import { replicaTakeover } from './replica-takeover.ts';
import { rescueOver } from './rescue-over.ts';
import type { SweepServices } from './services.ts';
import { startDeadline } from './start-deadline.ts';
import { stuckStarting } from './stuck-starting.ts';
import type { Sweep } from './sweep.ts';
import { taskLease } from './task-lease.ts';
import { tokenExpiry } from './token-expiry.ts';

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
