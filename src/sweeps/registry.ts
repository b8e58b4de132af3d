/** Every sweep there is, in the order in which they are asked. A new rule is one file and one line here. */
import { cleanDeadline } from './clean-deadline.ts';
import { housekeeping } from './housekeeping.ts';
import { offlineDeadline } from './offline-deadline.ts';
import { operationStart } from './operation-start.ts';
import { provisionDeadline } from './provision-deadline.ts';
import { queueDeadline } from './queue-deadline.ts';
import { releaseDeadline } from './release-deadline.ts';
import { releaseRetry } from './release-retry.ts';
import { replicaTakeover } from './replica-takeover.ts';
import { rescueOver } from './rescue-over.ts';
import type { SweepServices } from './services.ts';
import { startDeadline } from './start-deadline.ts';
import { stuckStarting } from './stuck-starting.ts';
import type { Sweep } from './sweep.ts';
import { taskLease } from './task-lease.ts';

export const sweepRegistry = (services: SweepServices): Sweep[] => [
  replicaTakeover(services),
  operationStart(services),
  provisionDeadline(services),
  stuckStarting(services),
  startDeadline(services),
  offlineDeadline(services),
  cleanDeadline(services),
  queueDeadline(services),
  rescueOver(services),
  releaseDeadline(services),
  releaseRetry(services),
  taskLease(services),
  housekeeping(services),
];
