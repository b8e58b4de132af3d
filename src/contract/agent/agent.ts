/** The agent protocol: requests of a node's agent and the server's replies. */
import { type Static, Type } from 'typebox';
import { OutsideKind } from '../evidence/evidence.ts';
import { BootStage, NodeStatusName } from '../node.ts';
import { Id, Labels, Moment, Name, nullable, OpenObject, strict, Timestamp } from '../primitives.ts';

export const agentClaims = ['starting', 'ready', 'degraded', 'stopping'] as const;
export type AgentClaim = (typeof agentClaims)[number];

export const TaskKey = Type.Object({
  kid: Type.String(),
  public_key: Type.String({ description: 'Ed25519, SPKI DER, base64' }),
  accepted_until: Type.Optional(
    Type.String({ description: 'UTC, RFC 3339. Refuse what it signed from then on. Absent: not known yet.' }),
  ),
  endorsed_by: Type.Optional(Type.String({ description: 'The key before it, which signed this one.' })),
  endorsement: Type.Optional(
    Type.String({ description: 'Ed25519 by that key, base64; docs/reference/agent.md says over what.' }),
  ),
});
export type TaskKey = Static<typeof TaskKey>;

/**
 * Rejected here, because an invalid key would otherwise surface only when its release proof is
 * verified.
 */
const Ed25519PublicKey = Type.String({
  pattern: '^MCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}=$',
  description: 'Ed25519, SPKI DER, base64',
});

/** Without user and password: everyone who may see the node sees its endpoint. */
const httpUrl = 'https?://[^\\s/?#@\\u0000]+([/?#][!-~]*)?';
const HttpUrl = Type.String({ maxLength: 2048, pattern: `^${httpUrl}$` });
/** For clients of other protocols, which send an empty string for none. */
export const HttpUrlOrEmpty = Type.String({ maxLength: 2048, pattern: `^(${httpUrl})?$` });

/**
 * Proves that the agent holds the key of its earlier registration; `contract/agent/key-proof.ts`
 * defines the signed text.
 */
const KeyProof = Type.Object(
  {
    signed_at: Moment,
    signature: Type.String({ pattern: '^[A-Za-z0-9+/]{86}==$', description: 'Ed25519, base64' }),
  },
  strict,
);

export const RegisterRequest = Type.Object(
  {
    enrollment_token: Type.Optional(Type.String({ minLength: 1, maxLength: 2048 })),
    join_token: Type.Optional(Type.String({ minLength: 1, maxLength: 512 })),
    name: Type.Optional(Name),
    base_url: Type.Optional(HttpUrl),
    version: Type.String({ minLength: 1, maxLength: 128 }),
    agent_public_key: Type.Optional(Ed25519PublicKey),
    rotates_credential: Type.Optional(
      Type.Boolean({ description: 'The agent rotates its credential, so the one it gets here may expire.' }),
    ),
    key_change: Type.Optional(
      Type.Object(
        {
          signature: Type.String({
            pattern: '^[A-Za-z0-9+/]{86}==$',
            description: 'Ed25519 by the former key, base64; docs/reference/agent.md says over what.',
          }),
        },
        { ...strict, description: 'Shows that the holder of the former key wants `agent_public_key` in its place.' },
      ),
    ),
    key_proof: Type.Optional(KeyProof),
    boot: Type.Optional(Type.Object({ stages: Type.Array(BootStage, { maxItems: 256 }) }, strict)),
    labels: Type.Optional(Labels),
  },
  { ...strict, $id: 'RegisterRequest' },
);
export type RegisterRequest = Static<typeof RegisterRequest>;

export const RegisterReply = Type.Object(
  {
    node_id: Type.String(),
    node_instance_id: Type.String(),
    credential: Type.Optional(
      Type.String({ description: 'Absent when the caller registered again with its credential.' }),
    ),
    credential_expires_at: Type.Optional(
      Type.Union([Timestamp, Type.Null()], { description: 'Rotate before. Null: it does not expire.' }),
    ),
    task_keys: Type.Array(TaskKey),
    former_task_keys: Type.Optional(
      Type.Array(TaskKey, { description: 'Retired keys. Accept no task by them; they only endorse later keys.' }),
    ),
    task_key_refresh_seconds: Type.Optional(
      Type.Number({ description: 'Ask for the task keys this often, so that a new one is known before it signs.' }),
    ),
    heartbeat_interval_seconds: Type.Number(),
    deadline_at: nullable(Timestamp),
    requires: Type.Optional(
      Type.Array(Type.Object({ name: Type.String(), check: Type.String() }), {
        description: "The pool's prerequisites, which the agent checks before it claims to be ready.",
      }),
    ),
    log_acknowledged_seq: Type.Optional(
      Type.Integer({
        description:
          "The last line of this instance's log that is durable. Whoever has not given out that number yet lost its spool, and goes on beyond it.",
      }),
    ),
  },
  { $id: 'RegisterReply' },
);
export type RegisterReply = Static<typeof RegisterReply>;

const beatFields = {
  node_instance_id: Type.Optional(
    Type.String({ ...Id, description: 'Whose beat it is meant to be; refused when the credential is of another one.' }),
  ),
  status: Type.Optional(Type.Enum([...agentClaims])),
  health_score: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
  error_rate: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  active_tasks: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
  boot_stage: Type.Optional(Type.String({ maxLength: 128 })),
  message: Type.Optional(Type.String({ maxLength: 1024 })),
};

export const Heartbeat = Type.Object(beatFields, { ...strict, $id: 'Heartbeat' });
export type Heartbeat = Static<typeof Heartbeat>;

export const HeartbeatReply = Type.Object(
  {
    node_status: NodeStatusName,
    heartbeat_interval_seconds: Type.Number(),
    tasks_waiting: Type.Integer(),
    task_keys: Type.Optional(Type.Array(TaskKey)),
  },
  { $id: 'HeartbeatReply' },
);
export type HeartbeatReply = Static<typeof HeartbeatReply>;

const BatchBeat = Type.Object(
  {
    credential: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 512,
        description: "The machine's own credential. A beat without one is refused alone: `beat_credential_missing`.",
      }),
    ),
    ...beatFields,
  },
  strict,
);
export type BatchBeat = Static<typeof BatchBeat>;
const batchFields = { beats: Type.Array(BatchBeat, { minItems: 1, maxItems: 1000 }) };

export const HeartbeatBatch = Type.Object(batchFields, { ...strict, $id: 'HeartbeatBatch' });
export const HeartbeatBatchReply = Type.Object(
  {
    results: Type.Array(
      Type.Union([HeartbeatReply, Type.Object({ code: Type.String(), status: Type.Integer(), detail: Type.String() })]),
    ),
  },
  { $id: 'HeartbeatBatchReply' },
);
export type HeartbeatResult = Static<typeof HeartbeatBatchReply>['results'][number];

/** Chosen by the sender of a frame and repeated in its reply. */
const seq = { seq: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })) };

const idle = Type.Optional(
  Type.Boolean({
    description: 'No task is in progress. The server redelivers a lost task. Omit it if tasks run in parallel.',
  }),
);

/**
 * Frames that an agent sends on its stream: heartbeats, and readiness for a task. A relay sends
 * batches. docs/reference/agent.md documents them all.
 */
export const BeatFrame = Type.Object({ ...seq, ...beatFields }, strict);
export const TasksFrame = Type.Object({ tasks: Type.Literal(true), idle }, strict);
export const BatchFrame = Type.Object({ ...seq, ...batchFields }, strict);
export type BeatFrame = Static<typeof BeatFrame>;
export type TasksFrame = Static<typeof TasksFrame>;
export type BatchFrame = Static<typeof BatchFrame>;

/** The signature covers the canonical JSON of this object without `signature`. */
export const SignedTask = Type.Object(
  {
    task_id: Type.String(),
    type: Type.String(),
    params: OpenObject,
    node_id: Type.String(),
    node_instance_id: Type.String(),
    correlation_id: nullable(Type.String()),
    allocation_id: nullable(Type.String()),
    workflow_id: nullable(Type.String()),
    traceparent: Type.Optional(
      Type.String({ description: 'W3C trace context: what the machine does for this task belongs to it.' }),
    ),
    lease_seconds: Type.Number(),
    expires_at: Timestamp,
    kid: Type.String(),
    signature: Type.String({ description: 'Ed25519, base64' }),
  },
  { $id: 'SignedTask' },
);
export type SignedTask = Static<typeof SignedTask>;

export const NextTaskQuery = Type.Object(
  { wait: Type.Optional(Type.Number({ minimum: 0, maximum: 60 })), idle },
  strict,
);
export const NextTaskReply = Type.Object({ task: nullable(SignedTask) }, { $id: 'NextTaskReply' });
export type NextTaskReply = Static<typeof NextTaskReply>;

export const TaskProgress = Type.Object(
  {
    message: Type.Optional(Type.String({ maxLength: 1024 })),
    percent: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
  },
  { ...strict, $id: 'TaskProgress' },
);
export const TaskProgressReply = Type.Object({ lease_seconds: Type.Number() }, { $id: 'TaskProgressReply' });

export const TaskResult = Type.Object(
  {
    status: Type.Enum(['succeeded', 'failed']),
    result: Type.Optional(OpenObject),
    error: Type.Optional(
      Type.Object({ code: Type.String({ maxLength: 128 }), message: Type.String({ maxLength: 8192 }) }, strict),
    ),
    /**
     * Ed25519 signature by the agent's key over the canonical JSON of {task_id, node_instance_id,
     * status, result}.
     */
    signature: Type.Optional(Type.String({ maxLength: 512 })),
  },
  { ...strict, $id: 'TaskResult' },
);
export type TaskResult = Static<typeof TaskResult>;

/** One line of the NDJSON body of `POST /v1/agent/logs`. */
export const ShippedLine = Type.Object(
  {
    seq: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
    at: Moment,
    stream: Type.Enum(['agent', 'setup', 'stdout', 'stderr', 'clean']),
    line: Type.String({ maxLength: 16_384 }),
  },
  { ...strict, $id: 'ShippedLine' },
);
export type ShippedLine = Static<typeof ShippedLine>;
export const maxShippedLines = 5_000;
/** The whole `application/x-ndjson` body, as a list of its lines. */
export const ShippedLines = Type.Array(ShippedLine, {
  minItems: 1,
  maxItems: maxShippedLines,
  description: 'NDJSON: one object a line. A client without NDJSON writes each item with JSON.stringify and a newline.',
});
export const LogsReply = Type.Object({ acknowledged_seq: Type.Integer() }, { $id: 'LogsReply' });

export const BootReport = Type.Object(
  { stages: Type.Array(BootStage, { minItems: 1, maxItems: 256 }) },
  { ...strict, $id: 'BootReport' },
);

/** Results of all checks in the pool's `requires`, sent whenever one of them changes. */
export const PrerequisiteReport = Type.Object(
  {
    results: Type.Array(
      Type.Object({ name: Name, ok: Type.Boolean(), detail: Type.Optional(Type.String({ maxLength: 1024 })) }, strict),
      { minItems: 1, maxItems: 64 },
    ),
  },
  { ...strict, $id: 'PrerequisiteReport' },
);
export type PrerequisiteReport = Static<typeof PrerequisiteReport>;

/**
 * Facts that only the machine observed, kept until they could be sent: failed calls, crashes,
 * checks.
 */
export const AgentEvidence = Type.Object(
  {
    facts: Type.Array(
      Type.Object(
        {
          at: Moment,
          layer: Type.Enum(['node', 'transport']),
          kind: OutsideKind,
          summary: Type.String({ maxLength: 1024 }),
          data: Type.Optional(OpenObject),
        },
        strict,
      ),
      { minItems: 1, maxItems: 100 },
    ),
  },
  { ...strict, $id: 'AgentEvidence' },
);

export const CredentialRotation = Type.Object(
  {
    signature: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9+/]{86}==$',
        description: "Ed25519 by the agent's key, base64; docs/reference/agent.md says over what.",
      }),
    ),
  },
  { ...strict, $id: 'CredentialRotation' },
);
export const CredentialReply = Type.Object(
  { credential: Type.String(), credential_expires_at: nullable(Timestamp) },
  { $id: 'CredentialReply' },
);
export type CredentialReply = Static<typeof CredentialReply>;
export const TaskKeysReply = Type.Object(
  {
    task_keys: Type.Array(TaskKey),
    former_task_keys: Type.Array(TaskKey),
    task_key_refresh_seconds: Type.Number(),
  },
  { $id: 'TaskKeysReply' },
);
export type TaskKeysReply = Static<typeof TaskKeysReply>;
export const Acknowledged = Type.Object({ ok: Type.Literal(true) }, { $id: 'Acknowledged' });

export const BundleQuery = Type.Object(
  {
    sha256: Type.Optional(
      Type.String({
        pattern: '^[0-9a-f]{64}$',
        description: 'Only the file with this digest, also if it is not the newest.',
      }),
    ),
  },
  { ...strict, $id: 'BundleQuery' },
);
