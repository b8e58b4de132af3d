/**
 * The contract between operations and drivers. Drivers create and delete machines.
 *
 * Every driver call is idempotent: after a crash at any point it may be repeated, and it finds the
 * resources of the earlier call by their tags (installation, node, instance) or by a name that
 * contains or derives from the instance's id. A driver deletes only such resources.
 *
 * A call does not wait for a machine; it returns `done`, `wait` or `failed`. A driver writes no
 * status and does not access the store.
 */
import type { TSchema } from 'typebox';
import type { CorrelationId, NodeId, NodeInstanceId, WorkflowId } from '../base/ids.ts';
import type { OwnerLayer } from '../contract/errors/problem.ts';
import type { ProgressPart } from '../contract/progress.ts';

export type DriverState = { [key: string]: string | number | boolean | null };

/** The machine that a call is about. `state` is what the driver last returned for this instance. */
export interface DriverTarget {
  installation_id: string;
  pool: string;
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  name: string;
  zone: string | null;
  /** Already validated against the driver's own schema. */
  spec: unknown;
  workflow_id: WorkflowId | null;
  correlation_id: CorrelationId | null;
  state: DriverState;
}

export interface EnsureTarget extends DriverTarget {
  /** Everything the machine needs to register. */
  bootstrap: {
    server_url: string;
    /** Certificate authority (PEM) for `server_url`, if it is not a public one. */
    ca?: string | null;
    /** Other URLs of the control plane, used if `server_url` does not answer. */
    other_server_urls?: string[];
    /** The trace collector, for machines that can reach it. */
    otlp_endpoint?: string | null;
    enrollment_token: string;
    deadline_at: string;
    requires: { name: string; check: string }[];
    /** Names of variables whose values come from stored secrets. */
    secret_env?: string[];
  };
}

export interface DriverFailure {
  outcome: 'failed';
  owner_layer: OwnerLayer;
  code: string;
  message: string;
  retryable: boolean;
  phase?: string;
}

/** The error that makes a driver retry instead of continuing. */
export interface WaitError {
  code: string;
  owner_layer: OwnerLayer;
}

interface Wait {
  outcome: 'wait';
  /** The operation repeats the call after this time, or earlier when it is woken. */
  retry_seconds: number;
  message: string;
  /**
   * Identifies the progress: it changes only when there is progress. A message may change without
   * progress, for example because it contains an elapsed time.
   */
  mark?: string;
  /** The planned phase that the launch is in. A phase that the launch has left is ignored. */
  phase?: string;
  /** The provider has no capacity. The boot has not begun, so its time budget does not run yet. */
  waits_for?: 'capacity';
  parts?: ProgressPart[];
  state?: DriverState;
}

/**
 * `put_off` means that the upstream is busy, unavailable or throttling; users see when the call is
 * retried. Without `put_off` the driver only polls. If the deadline passes, `error` becomes part of
 * the verdict, unless a later answer without an error has cleared it.
 */
export type DriverWait = Wait & ({ put_off: true; error: WaitError } | { put_off?: never; error?: WaitError });

export interface DriverDone {
  outcome: 'done';
  message: string;
  phase?: string;
  endpoint?: string;
  parts?: ProgressPart[];
  state?: DriverState;
}

export type DriverOutcome = DriverDone | DriverWait | DriverFailure;

export type ProofKind = 'absent' | 'clean' | 'revoked';

/** A proof contains the caller's nonce, so that an old proof cannot be used again. */
export interface DriverProof {
  kind: ProofKind;
  nonce: string;
  /** Each check with its result, precise enough for a person to repeat the check. */
  checked: { what: string; seen: string }[];
}

export type ProveOutcome = { outcome: 'done'; proof: DriverProof } | DriverWait | DriverFailure;

export interface Observation {
  /** The upstream's name for the state, or `absent` if no resource of this instance exists. */
  state: string;
  present: boolean;
  /** The upstream reports the machine as ready; used only for agentless machines. */
  ready: boolean;
  detail: string | null;
  /** The machine could not be inspected, so it is unknown whether it exists. */
  unseen?: true;
}

export interface Diagnosis {
  summary: string;
  /** True if the machine has certainly failed, so waiting longer cannot help. */
  certain: boolean;
  /** The error code that the machine left when it ended, such as `setup_failed`. */
  code?: string;
  /**
   * Texts that only the machine or its upstream has, such as console output, the last log lines or
   * a process list.
   */
  attachments: { name: string; text: string }[];
}

export interface OwnedResource {
  /** The upstream's own identifier. */
  resource: string;
  kind: string;
  node_id: NodeId | null;
  node_instance_id: NodeInstanceId | null;
  /** The cost of the resource per hour, if the upstream reports it. */
  cost_per_hour?: number;
}

export interface PlannedStep {
  phase: string;
  label: string;
  usual_seconds: number | null;
  /** The layer that must act if the step takes too long without an error. */
  owner_layer: OwnerLayer;
  /**
   * The duration of a slow run, if the provider is known to be slow at times. Users see both
   * durations until the pool has its own history.
   */
  slow_seconds?: number;
}

export interface Driver {
  readonly name: string;
  /**
   * With `agent`, the node's agent registers and sends heartbeats. With `agentless`, each
   * inspection that shows the machine counts as a heartbeat.
   */
  readonly supervision: 'agent' | 'agentless';
  /** Whether this driver starts machines. The `external` driver waits for machines to join. */
  readonly launches: boolean;
  /** True if its pools run code on the control plane's own host; only an admin may declare them. */
  readonly host_bound: boolean;
  /**
   * The id of this host, for a host-bound driver. The driver compares it with the `host_id` in an
   * instance's state, so that it never reports a machine of another host as absent.
   */
  readonly host_id?: string;
  /** The kind of proof that ends the release of a node that is not reused. */
  readonly final_proof: ProofKind;
  readonly spec_schema: TSchema;
  /** Returns the phases of `ensure` in order. Users see each phase as a step. */
  plan(spec: unknown): PlannedStep[];
  ensure(target: EnsureTarget): Promise<DriverOutcome>;
  inspect(target: DriverTarget): Promise<Observation>;
  /** Ends the workload; the machine may keep running. */
  stop(target: DriverTarget): Promise<DriverOutcome>;
  /** Removes what the workload left behind, as far as the driver can reach it. */
  clean(target: DriverTarget): Promise<DriverOutcome>;
  /** Deletes the machine and everything tagged with this instance. */
  destroy(target: DriverTarget): Promise<DriverOutcome>;
  prove(target: DriverTarget, request: { kind: ProofKind; nonce: string }): Promise<ProveOutcome>;
  diagnose(target: DriverTarget): Promise<Diagnosis>;
  /** Lists all upstream resources with this installation's tag. */
  list_owned(installation_id: string): Promise<OwnedResource[]>;
  /** Aborts an `ensure` that is still running upstream. */
  abort(target: DriverTarget): Promise<DriverOutcome>;
}
