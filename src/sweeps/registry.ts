/** Every sweep there is, in the order in which they are asked. A new rule is one file and one line here. */
import type { Engine } from '../engine/engine.ts';
import type { OperationServices } from '../operations/services.ts';
import { housekeeping } from './housekeeping.ts';
import { operationStart } from './operation-start.ts';
import { provisionDeadline } from './provision-deadline.ts';
import { queueDeadline } from './queue-deadline.ts';
import { releaseRetry } from './release-retry.ts';
import { replicaTakeover } from './replica-takeover.ts';
import { rescueOver } from './rescue-over.ts';
import { startDeadline } from './start-deadline.ts';
import { stuckStarting } from './stuck-starting.ts';
import type { Sweep } from './sweep.ts';
import { taskLease } from './task-lease.ts';

export interface SweepServices extends OperationServices {
  engine: Engine;
  host: string;
  isProcessAlive(pid: number): boolean;
  /** Another replica took over from this one; it executes nothing more and must end. */
  onDeclaredDead(error: Error): void;
}

export const sweepRegistry = (services: SweepServices): Sweep[] => [
  replicaTakeover(services),
  operationStart(services),
  provisionDeadline(services),
  stuckStarting(services),
  startDeadline(services),
  queueDeadline(services),
  rescueOver(services),
  releaseRetry(services),
  taskLease(services),
  housekeeping(services),
];
