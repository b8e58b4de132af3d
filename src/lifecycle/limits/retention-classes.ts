/**
 * Every table and how long its rows are kept. Housekeeping deletes by this table, the settings file
 * may change the classes with a setting, and docs/reference/retention.md lists it.
 */

const daySeconds = 24 * 3600;

/** Classes whose time the settings file may change, as `retention.keep_seconds`. */
export const defaultRetentionSeconds = {
  tasks: 30 * daySeconds,
  logs: 30 * daySeconds,
  operations: 90 * daySeconds,
  allocations: 90 * daySeconds,
  nodes: 90 * daySeconds,
  residue: 90 * daySeconds,
  boots: 90 * daySeconds,
  supervision: 90 * daySeconds,
} as const;

export type RetentionSetting = keyof typeof defaultRetentionSeconds;
export type RetentionSeconds = Record<RetentionSetting, number>;

export const retentionSettings = Object.keys(defaultRetentionSeconds) as RetentionSetting[];

/** Learned budgets and slower boots are judged from the boots of 30 days. */
const minBootSeconds = 31 * daySeconds;

/** The shortest time that the settings file may name for a class. */
export const minRetentionSeconds = (setting: RetentionSetting): number =>
  setting === 'boots' ? minBootSeconds : daySeconds;

/** Classes with a fixed time, which the settings file cannot change. */
export const fixedRetentionSeconds = {
  /** A caller repeats a request within hours. */
  requests: daySeconds,
  /** Long enough to investigate a failure. The operation's evidence is kept longer. */
  engine: 7 * daySeconds,
  findings: 30 * daySeconds,
  /** Older step durations say little about the next one. */
  step_samples: 30 * daySeconds,
} as const;

export type FixedRetention = keyof typeof fixedRetentionSeconds;

interface RetentionClass {
  tables: readonly string[];
  /** From when the time counts, for people. */
  since: string;
  /** Which rows stay although their time is over, for people. */
  stays: string;
}

/** Rows are deleted when the time of their class is over. */
export const timedClasses = {
  tasks: {
    tables: ['tasks'],
    since: 'the end of the task',
    stays: 'tasks of an operation that has not ended',
  },
  logs: {
    tables: ['node_log_chunks'],
    since: 'the end of the instance that wrote them',
    stays: 'logs of the present instance of a node; their size is limited instead',
  },
  operations: {
    tables: ['operations', 'steps', 'step_receipts', 'recovery_targets'],
    since: 'the end of the operation',
    stays:
      'operations of an allocation that is not released, the last operation of a live node, operations of a node that is failed, draining, cleaning or quarantined, and operations with open residue',
  },
  allocations: {
    tables: ['allocations'],
    since: 'the release',
    stays: 'allocations that are not released, or that still have an operation or residue that is not gone',
  },
  nodes: {
    tables: ['nodes', 'instances', 'heartbeats', 'probes', 'boot_stages', 'boot_signs', 'node_log_ends', 'node_looks'],
    since: 'the retirement of the node, or the end of an earlier instance of a live node',
    stays:
      'nodes that are not retired, or that still have an allocation, operation, task, log, open finding or residue that is not gone; instances with a credential whose machine is not proven absent, with their nodes; of a live node the present instance, the last one that registered, the last one of each join token, and instances that are not proven clean',
  },
  residue: {
    tables: ['residue'],
    since: 'the proof that the resource is gone',
    stays: 'open and adopted residue, and residue of an allocation or an instance that still exists',
  },
  boots: {
    tables: ['boot_samples', 'budget_changes'],
    since: 'the end of the boot, or the change of the budget',
    stays: 'the last change of each pool',
  },
  supervision: {
    tables: ['ingest_gaps', 'brake_holds', 'replicas', 'maintenance_windows'],
    since: 'the end of the gap, hold, replica or window',
    stays: 'the newest gap, the replica that stored heartbeats last, and replicas with an operation that has not ended',
  },
  requests: {
    tables: ['idempotency_keys'],
    since: 'the request',
    stays: 'nothing',
  },
  engine: {
    tables: ['dbos.*'],
    since: 'the end of the run',
    stays: 'runs that have not ended',
  },
  findings: {
    tables: ['findings'],
    since: 'the end of the finding',
    stays: 'findings that have not ended',
  },
  step_samples: {
    tables: ['step_samples'],
    since: 'the end of the step',
    stays: 'nothing',
  },
} as const satisfies Record<RetentionSetting | FixedRetention, RetentionClass>;

export type TimedClass = keyof typeof timedClasses;

/** Tables that another bound keeps small, or that nothing deletes. */
export const otherTables = {
  evidence: 'by layer, with `evidence.keep_seconds`; whole partitions',
  evidence_checkpoints: 'for ever (decision 0037)',
  evidence_segments: 'for ever (decision 0037)',
  evidence_late_rows: 'for ever (decision 0037)',
  evidence_cuts: 'for ever; one row for each dropped partition',
  evidence_eras: 'for ever; one row for each restore',
  restorations: 'for ever; one row for each restore',
  restoration_differences: 'until the next restore',
  evidence_keys: 'for ever; one row for each signing key',
  brake_tally: 'one hour',
  size_samples: '8 days; about one row an hour',
  counts: 'changes are added up to one row for each count',
  sessions: 'until the session expires; at most 100 for each token',
  token_uses: 'one row for each token',
  pools: 'for ever; people declare pools',
  pool_generations: 'for ever; one row for each change of a pool',
  join_tokens: 'for ever; people create them',
  tokens: 'for ever; people create them',
  secrets: 'until a person deletes the secret',
  signing_keys: 'for ever; old signatures need them',
  installation: 'for ever; one row',
  schema_migrations: 'for ever; one row for each migration',
} as const satisfies Record<string, string>;

/** How long rows of a class are kept. */
export const keptSeconds = (name: TimedClass, keep: RetentionSeconds): number =>
  name in fixedRetentionSeconds ? fixedRetentionSeconds[name as FixedRetention] : keep[name as RetentionSetting];
