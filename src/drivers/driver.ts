/**
 * The contract between operations and whatever brings machines up.
 *
 * A driver is idempotent and restartable: every call may be repeated after a crash at any point, finds its own earlier
 * work by its tags (installation, node, instance), and never waits inside: it answers `done`, `wait` or `failed`.
 * It deletes only what carries its tags. It writes no status and knows no store.
 */
import type { TSchema } from 'typebox';
import type { CorrelationId, NodeId, NodeInstanceId, WorkflowId } from '../base/ids.ts';
import type { OwnerLayer } from '../contract/errors/problem.ts';
import type { ProgressPart } from '../contract/progress.ts';

export type DriverState = { [key: string]: string | number | boolean | null };

/** The machine a call is about. `state` is what the driver last asked us to keep for this instance. */
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
  /** What the machine needs in order to phone home. */
  bootstrap: {
    server_url: string;
    /** PEM: who vouches for that address, where it is nobody whom every machine trusts. */
    ca?: string | null;
    /** Where else the control plane answers, should that replica be gone. */
    other_server_urls?: string[];
    /** The collector that traces go to, for machines that reach it as the control plane does. */
    otlp_endpoint?: string | null;
    enrollment_token: string;
    deadline_at: string;
    requires: { name: string; check: string }[];
    /** Variables of the environment whose values come from stored secrets, whatever their names. */
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

/** What keeps a driver from going on, while it asks again. */
export interface WaitError {
  code: string;
  owner_layer: OwnerLayer;
}

interface Wait {
  outcome: 'wait';
  /** Ask again after this long, or when woken. */
  retry_seconds: number;
  message: string;
  /** What has been reached, where the message also tells what only ticks: a clock that runs on is no advance. */
  mark?: string;
  /** Which of its planned phases it is in. One that it has left before changes nothing. */
  phase?: string;
  /** The provider has no room for it yet: its boot has not begun, so its boot budget does not run. */
  waits_for?: 'capacity';
  parts?: ProgressPart[];
  state?: DriverState;
}

/**
 * `put_off`: the upstream is busy, away or asked too often: it is tried again, at a time that people are told. Otherwise it is only
 * looked at again. `error` is part of the verdict if the deadline passes meanwhile; the next answer that names a phase replaces it.
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

/** A statement that holds at `nonce`'s asking, and only then: an old proof cannot be shown again. */
export interface DriverProof {
  kind: ProofKind;
  nonce: string;
  /** What was looked at and what was seen, in words and facts a stranger can check. */
  checked: { what: string; seen: string }[];
}

export type ProveOutcome = { outcome: 'done'; proof: DriverProof } | DriverWait | DriverFailure;

export interface Observation {
  /** The upstream's own word, never ours. `absent` when nothing of this instance exists upstream. */
  state: string;
  present: boolean;
  /** Upstream says it is ready for use; only drivers with `supervision: observe` are asked to mean it. */
  ready: boolean;
  detail: string | null;
  /** From here it cannot be seen at all, so nothing is said about whether it exists. */
  unseen?: true;
}

export interface Diagnosis {
  summary: string;
  /** A certain crash: waiting longer cannot help. */
  certain: boolean;
  /** What the machine itself calls its end, where it left a word: `setup_failed`. */
  code?: string;
  /** Named texts that only the machine or its upstream knows: console output, last lines, process list. */
  attachments: { name: string; text: string }[];
}

export interface OwnedResource {
  /** The upstream's own identifier. */
  resource: string;
  kind: string;
  node_id: NodeId | null;
  node_instance_id: NodeInstanceId | null;
  /** What it costs to leave it, where the upstream says so. */
  cost_per_hour?: number;
}

export interface PlannedStep {
  phase: string;
  label: string;
  usual_seconds: number | null;
  /** Who has to act where the step takes too long and nothing went wrong in it. */
  owner_layer: OwnerLayer;
  /** What the slow ones take, where the provider is known for it: people are told both until the pool has its own history. */
  slow_seconds?: number;
}

export interface Driver {
  readonly name: string;
  /** `agent`: the node's agent registers and beats. `observe`: each successful observation counts as the heartbeat. */
  readonly supervision: 'agent' | 'observe';
  /** Whether this driver starts machines; one that does not (external) waits for somebody else to. */
  readonly launches: boolean;
  /** Runs commands on the control plane's own host, so only an admin may declare such a pool. */
  readonly host_bound: boolean;
  /**
   * Where it is host-bound: this host, whose machines it sees and no others. It keeps the same word as `host_id` in the state of
   * an instance, so that what another host holds is never taken for gone.
   */
  readonly host_id?: string;
  /** The proof that ends a release of a node that is not reused. */
  readonly final_proof: ProofKind;
  readonly spec_schema: TSchema;
  /** The phases that its `ensure` goes through, in order, where there is more than one: each is a step that people see. */
  plan(spec: unknown): PlannedStep[];
  ensure(target: EnsureTarget): Promise<DriverOutcome>;
  observe(target: DriverTarget): Promise<Observation>;
  /** Ends the workload; the machine may stay. */
  stop(target: DriverTarget): Promise<DriverOutcome>;
  /** Removes what the workload left, where the driver can reach it. */
  clean(target: DriverTarget): Promise<DriverOutcome>;
  /** Ends the machine and everything tagged with this instance. */
  destroy(target: DriverTarget): Promise<DriverOutcome>;
  prove(target: DriverTarget, asked: { kind: ProofKind; nonce: string }): Promise<ProveOutcome>;
  diagnose(target: DriverTarget): Promise<Diagnosis>;
  /** Everything upstream that carries this installation's tag. */
  list_owned(installation_id: string): Promise<OwnedResource[]>;
  /** Ends an `ensure` that is still under way upstream. */
  abort(target: DriverTarget): Promise<DriverOutcome>;
}
