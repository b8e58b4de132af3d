/**
 * The contract between operations and the code that brings machines up.
 *
 * A driver is idempotent: every call may be repeated after a crash at any point, and finds its
 * earlier work by its tags (installation, node, instance). A call never waits inside: it returns
 * `done`, `wait` or `failed`. A driver deletes only what carries its tags. It writes no status and
 * knows no store.
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
    /** PEM: the authority for that address, if it is not a public one. */
    ca?: string | null;
    /** Other addresses of the control plane, for when that replica is gone. */
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

/** The error that keeps a driver from continuing while it retries. */
export interface WaitError {
  code: string;
  owner_layer: OwnerLayer;
}

interface Wait {
  outcome: 'wait';
  /** Call again after this long, or when woken. */
  retry_seconds: number;
  message: string;
  /**
   * The progress reached, without the parts of the message that change by themselves (a running
   * clock is no progress).
   */
  mark?: string;
  /** The planned phase it is in. A phase that it has left before changes nothing. */
  phase?: string;
  /** The provider has no capacity: the boot has not begun, so the boot budget does not run. */
  waits_for?: 'capacity';
  parts?: ProgressPart[];
  state?: DriverState;
}

/**
 * With `put_off` the upstream is busy, unavailable or throttling, and the call is retried at a time
 * that people see; otherwise the driver only looks again. `error` becomes part of the verdict if
 * the deadline passes meanwhile; the next answer with a phase replaces it.
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

/** A statement bound to the caller's nonce, so that an old proof cannot be shown again. */
export interface DriverProof {
  kind: ProofKind;
  nonce: string;
  /** The checks and their findings, in words and facts that anybody can verify. */
  checked: { what: string; seen: string }[];
}

export type ProveOutcome = { outcome: 'done'; proof: DriverProof } | DriverWait | DriverFailure;

export interface Observation {
  /** The upstream's own word. `absent` if nothing of this instance exists upstream. */
  state: string;
  present: boolean;
  /** Upstream says that it is ready for use; used only with `supervision: observe`. */
  ready: boolean;
  detail: string | null;
  /** It cannot be seen from here at all, so nothing is known about whether it exists. */
  unseen?: true;
}

export interface Diagnosis {
  summary: string;
  /** A certain crash: waiting longer cannot help. */
  certain: boolean;
  /** The machine's own code for its end, if it left one: `setup_failed`. */
  code?: string;
  /**
   * Named texts that only the machine or its upstream has: console output, last lines, process
   * list.
   */
  attachments: { name: string; text: string }[];
}

export interface OwnedResource {
  /** The upstream's own identifier. */
  resource: string;
  kind: string;
  node_id: NodeId | null;
  node_instance_id: NodeInstanceId | null;
  /** The cost of leaving it, if the upstream says so. */
  cost_per_hour?: number;
}

export interface PlannedStep {
  phase: string;
  label: string;
  usual_seconds: number | null;
  /** The layer that has to act if the step takes too long although nothing failed. */
  owner_layer: OwnerLayer;
  /**
   * The duration of slow runs, if the provider is known for them. People see both until the pool
   * has its own history.
   */
  slow_seconds?: number;
}

export interface Driver {
  readonly name: string;
  /**
   * `agent`: the node's agent registers and sends heartbeats. `observe`: each successful
   * observation counts as a heartbeat.
   */
  readonly supervision: 'agent' | 'observe';
  /** Whether this driver starts machines; `external` waits for others to do so. */
  readonly launches: boolean;
  /** Runs commands on the control plane's own host, so only an admin may declare such a pool. */
  readonly host_bound: boolean;
  /**
   * For a host-bound driver: the id of this host, the only one whose machines it sees. It is also
   * `host_id` in the state of an instance, so that what another host holds is never taken for gone.
   */
  readonly host_id?: string;
  /** The proof that ends a release of a node that is not reused. */
  readonly final_proof: ProofKind;
  readonly spec_schema: TSchema;
  /**
   * The phases of `ensure`, in order, if there is more than one; each is a step that people see.
   */
  plan(spec: unknown): PlannedStep[];
  ensure(target: EnsureTarget): Promise<DriverOutcome>;
  observe(target: DriverTarget): Promise<Observation>;
  /** Ends the workload; the machine may stay. */
  stop(target: DriverTarget): Promise<DriverOutcome>;
  /** Removes what the workload left, as far as the driver can reach it. */
  clean(target: DriverTarget): Promise<DriverOutcome>;
  /** Ends the machine and everything tagged with this instance. */
  destroy(target: DriverTarget): Promise<DriverOutcome>;
  prove(target: DriverTarget, wanted: { kind: ProofKind; nonce: string }): Promise<ProveOutcome>;
  diagnose(target: DriverTarget): Promise<Diagnosis>;
  /** Everything upstream that carries this installation's tag. */
  list_owned(installation_id: string): Promise<OwnedResource[]>;
  /** Ends an `ensure` that is still under way upstream. */
  abort(target: DriverTarget): Promise<DriverOutcome>;
}
