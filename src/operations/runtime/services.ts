/**
 * The dependencies of operations, assembled in server/open-operations.ts. Operations depend on
 * interfaces of drivers and the engine, never on an implementation.
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
  /** The URL under which agents reach this replica. */
  server_url(): string;
  /** PEM of the certificate authority for `server_url`, if it is our own. */
  public_ca: string | null;
  /** The OTLP collector, if one is configured. */
  otlp_endpoint?: string | null;
  /** The URLs of the other running replicas. */
  other_server_urls(): Promise<string[]>;
  /**
   * Sends one HTTP probe to the machine's address, with a timeout, if the address policy allows it.
   */
  probe(target: ProbeTarget): Promise<ProbeOutcome>;
  /** Cancels a running operation on whichever replica runs it. */
  cancelRun(workflow_id: WorkflowId, attempt: number): Promise<void>;
}
