/**
 * The services of sweeps: those of operations, plus what rules and the takeover of replicas need.
 */
import type { Log } from '../../base/telemetry/log.ts';
import type { Engine } from '../../engine/engine.ts';
import type { OperationServices } from '../../operations/runtime/services.ts';
import type { RestorationWatch } from '../../store/backup/restoration-watch.ts';
import type { IngestWatch } from './ingest.ts';
import type { Refusals } from './refusals.ts';
import type { Suspects } from './suspects.ts';

export interface SweepServices extends OperationServices {
  engine: Engine;
  host: string;
  /**
   * Checked before any negative verdict: a replica that misses heartbeats must not judge silence.
   */
  ingest: IngestWatch;
  restoration: RestorationWatch;
  suspects: Suspects;
  refusals: Refusals;
  log: Pick<Log, 'warn'>;
  isProcessAlive(pid: number): boolean;
  /**
   * Called when another replica declared this replica dead. This replica must then stop executing
   * and exit.
   */
  onDeclaredDead(error: Error): void;
}
