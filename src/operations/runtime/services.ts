/**
 * The dependencies of operations, which main.ts assembles. Operations know no concrete driver or
 * engine.
 */
import type { Clock } from '../../base/clock.ts';
import type { KeyRing } from '../../base/credentials/key-ring.ts';
import type { WorkflowId } from '../../base/ids.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { Installation } from '../../store/keys/installation.ts';
import type { Executor } from '../../store/operations/executions.ts';
import type { Database } from '../../store/pg/database.ts';
import type { ProbeOutcome, ProbeTarget } from '../../store/supervision/probes.ts';
import type { TransitionEnvironment } from '../../store/transitions/transition-rules.ts';

export interface OperationServices {
  db: Database;
  clock: Clock;
  environment: TransitionEnvironment;
  installation: Installation;
  /** The keys of the key file, which are not in the database. */
  key_ring: KeyRing;
  /** This replica and the epoch of its current process. */
  executor: Executor;
  drivers: ReadonlyMap<string, Driver>;
  /** The address under which agents reach this replica. */
  server_url(): string;
  /** PEM of the certificate authority for `server_url`, if it is our own. */
  public_ca: string | null;
  /** The OTLP collector, if one is configured. */
  otlp_endpoint?: string | null;
  /** The addresses of the other live replicas. */
  other_server_urls(): Promise<string[]>;
  /**
   * Sends one HTTP probe to the machine's address, with a timeout, if the address policy allows it.
   */
  probe(target: ProbeTarget): Promise<ProbeOutcome>;
  /** Cancels a running operation on whichever replica runs it. */
  cancelRun(workflow_id: WorkflowId, attempt: number): Promise<void>;
}
