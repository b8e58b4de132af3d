/** What sweeps are given to work with: all that operations have, and what it takes to start and take over operations. */
import type { Log } from '../../base/telemetry/log.ts';
import type { Engine } from '../../engine/engine.ts';
import type { OperationServices } from '../../operations/runtime/services.ts';
import type { IngestWatch } from './ingest.ts';
import type { Refusals } from './refusals.ts';
import type { Suspects } from './suspects.ts';

export interface SweepServices extends OperationServices {
  engine: Engine;
  host: string;
  /** Whether we ourselves hear, before anybody is judged by silence or time. */
  ingest: IngestWatch;
  suspects: Suspects;
  refusals: Refusals;
  log: Pick<Log, 'warn'>;
  isProcessAlive(pid: number): boolean;
  /** Another replica took over from this one; it executes nothing more and must end. */
  onDeclaredDead(error: Error): void;
}
