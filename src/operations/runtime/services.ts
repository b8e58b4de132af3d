/** What operations are given to work with. Put together by main; operations know no concrete driver and no concrete engine. */
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
  /** Keys outside the database. */
  key_ring: KeyRing;
  /** This replica, in this life. */
  executor: Executor;
  drivers: ReadonlyMap<string, Driver>;
  /** Where agents find this control plane. */
  server_url(): string;
  /** PEM: the authority that vouches for that address, where it is one of ours. */
  public_ca: string | null;
  /** The collector that traces go to, where one is named. */
  otlp_endpoint?: string | null;
  /** Where they find the other replicas that live now. */
  other_server_urls(): Promise<string[]>;
  /** Asks a machine at the address it gave whether it lives: one request, bounded, only where addresses may be asked. */
  probe(target: ProbeTarget): Promise<ProbeOutcome>;
  /** Asks a running operation to stop, wherever it runs. */
  cancelRun(workflow_id: WorkflowId, attempt: number): Promise<void>;
}
