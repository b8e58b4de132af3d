/** The services of sweeps: those of operations, and those to start and take over operations. */
import type { Log } from '../../base/telemetry/log.ts';
import type { Engine } from '../../engine/engine.ts';
import type { OperationServices } from '../../operations/runtime/services.ts';
import type { IngestWatch } from './ingest.ts';
import type { Refusals } from './refusals.ts';
import type { Suspects } from './suspects.ts';

export interface SweepServices extends OperationServices {
  engine: Engine;
  host: string;
  /**
   * Whether this replica receives heartbeats; checked before any node is judged by silence or time.
   */
  ingest: IngestWatch;
  suspects: Suspects;
  refusals: Refusals;
  log: Pick<Log, 'warn'>;
  isProcessAlive(pid: number): boolean;
  /**
   * Called when another replica took over from this one, which must then stop executing and exit.
   */
  onDeclaredDead(error: Error): void;
}
