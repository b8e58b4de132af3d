/**
 * The server's settings file, for settings too large for a flag. All fields are optional; unknown
 * keys are refused.
 */
import { readFile } from 'node:fs/promises';
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { parse } from 'yaml';
import { SettingsError } from '../base/settings/flag-values.ts';
import { type BootShiftSettings, defaultBootShiftSettings } from '../lifecycle/boots/boot-shift.ts';
import {
  type BrakePolicy,
  type BrakeSettings,
  defaultBrakePolicy,
  defaultBrakeSettings,
} from '../lifecycle/brake/brake.ts';
import { type BudgetSettings, defaultBudgetSettings, defaultRuntimeClasses } from '../lifecycle/deadlines/budgets.ts';
import {
  type DriftSettings,
  defaultDriftSettings,
  defaultRepeatFailureSettings,
  type RepeatFailureSettings,
} from '../lifecycle/findings/findings.ts';
import { defaultOrphanSettings, type OrphanSettings } from '../lifecycle/findings/residue.ts';
import {
  defaultLimits,
  type LimitSettings,
  type QuotaKind,
  quotaKinds,
  type RateSettings,
  requestKinds,
  type WriteQuota,
} from '../lifecycle/limits/limits.ts';
import {
  defaultKeepSeconds,
  defaultLogSettings,
  type KeepSeconds,
  type LogSettings,
} from '../lifecycle/limits/retention.ts';
import {
  defaultRetentionSeconds,
  minRetentionSeconds,
  type RetentionSeconds,
  retentionSettings,
} from '../lifecycle/limits/retention-classes.ts';
import { evidenceLayers } from './evidence/evidence-layers.ts';
import { Budgets } from './pool.ts';
import { type OperatorsMay, operatorLists } from './pool-fields/privileged.ts';
import { Name, PositiveSeconds, strict } from './primitives.ts';

/** The budget fields of a pool, except those only a pool can set. */
const ClassBudgets = Type.Omit(Budgets, ['policy', 'floor_seconds', 'progress_aware'], strict);

function isExpression(source: string): boolean {
  try {
    return !new RegExp(source).test('');
  } catch {
    return false;
  }
}

/** How long evidence is kept, by layer. Evidence younger than a day is never dropped. */
const EvidenceKeepSeconds = Type.Object(
  Object.fromEntries(evidenceLayers.map((layer) => [layer, Type.Optional(Type.Number({ minimum: 24 * 3600 }))])),
  strict,
);

/** How long rows other than evidence are kept, by class. */
const RowKeepSeconds = Type.Object(
  Object.fromEntries(
    retentionSettings.map((setting) => [
      setting,
      Type.Optional(Type.Number({ minimum: minRetentionSeconds(setting) })),
    ]),
  ),
  strict,
);

/** A regular expression whose matches are redacted. */
const Expression = Type.Refine(
  Type.String({ minLength: 1, maxLength: 1000 }),
  isExpression,
  () => 'must be a regular expression that does not match the empty text',
);

/** Values of privileged pool fields that operators may set; `*` allows every value. */
const OperatorsMayValues = Type.Object(
  Object.fromEntries(
    operatorLists.map((list) => [
      list,
      Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 4096 }), { maxItems: 1000 })),
    ]),
  ),
  strict,
);

/** A refill of zero would lock a caller out for good. The minimum is one row an hour. */
const Quota = Type.Object(
  {
    rows: Type.Optional(Type.Integer({ minimum: 1 })),
    rows_per_second: Type.Optional(Type.Number({ minimum: 1 / 3600 })),
    bytes: Type.Optional(Type.Integer({ minimum: 1024 })),
    bytes_per_second: Type.Optional(Type.Number({ minimum: 1 })),
  },
  strict,
);
const Rate = Type.Object(
  {
    burst: Type.Optional(Type.Integer({ minimum: 1 })),
    per_second: Type.Optional(Type.Number({ minimum: 1 / 60 })),
  },
  strict,
);
const Limits = Type.Object(
  {
    requests: Type.Optional(
      Type.Object(
        Object.fromEntries(requestKinds.map((kind) => [kind, Type.Optional(Rate)])) as Record<
          keyof RateSettings,
          ReturnType<typeof Type.Optional<typeof Rate>>
        >,
        strict,
      ),
    ),
    window_seconds: Type.Optional(Type.Number({ minimum: 1, maximum: 3600 })),
    ...(Object.fromEntries(quotaKinds.map((kind) => [kind, Type.Optional(Quota)])) as Record<
      QuotaKind,
      ReturnType<typeof Type.Optional<typeof Quota>>
    >),
  },
  strict,
);

export const ServerFile = Type.Object(
  {
    runtime_classes: Type.Optional(Type.Record(Name, ClassBudgets)),
    budgets: Type.Optional(ClassBudgets),
    brake: Type.Optional(
      Type.Object(
        {
          fraction: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
          min_nodes: Type.Optional(Type.Integer({ minimum: 1 })),
          window_seconds: Type.Optional(PositiveSeconds),
          self_fault_seconds: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 600 })),
          mass_failure_seconds: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 3600 })),
          resume_fraction: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
        },
        strict,
      ),
    ),
    drift: Type.Optional(
      Type.Object(
        {
          every_seconds: Type.Optional(PositiveSeconds),
          parked_seconds: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 3600 })),
        },
        strict,
      ),
    ),
    repeat_failure: Type.Optional(
      Type.Object(
        {
          failures: Type.Optional(Type.Integer({ minimum: 2, maximum: 1000 })),
          window_seconds: Type.Optional(PositiveSeconds),
        },
        strict,
      ),
    ),
    boot_shift: Type.Optional(
      Type.Object(
        {
          every_seconds: Type.Optional(PositiveSeconds),
          fewest_boots: Type.Optional(Type.Integer({ minimum: 10, maximum: 300 })),
          fewest_former_boots: Type.Optional(Type.Integer({ minimum: 10, maximum: 300 })),
          factor: Type.Optional(Type.Number({ minimum: 1.05, maximum: 100 })),
          budget_share: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
          usual_after_seconds: Type.Optional(PositiveSeconds),
        },
        strict,
      ),
    ),
    evidence: Type.Optional(Type.Object({ keep_seconds: Type.Optional(EvidenceKeepSeconds) }, strict)),
    retention: Type.Optional(Type.Object({ keep_seconds: Type.Optional(RowKeepSeconds) }, strict)),
    logs: Type.Optional(
      Type.Object({ most_bytes_per_node: Type.Optional(Type.Integer({ minimum: 1024 * 1024 })) }, strict),
    ),
    limits: Type.Optional(Limits),
    redact: Type.Optional(Type.Object({ patterns: Type.Optional(Type.Array(Expression, { maxItems: 100 })) }, strict)),
    operators_may: Type.Optional(OperatorsMayValues),
    orphans: Type.Optional(Type.Object({ every_seconds: Type.Optional(PositiveSeconds) }, strict)),
  },
  { ...strict, $id: 'ServerFile' },
);
export type ServerFile = Static<typeof ServerFile>;

export interface ServerFileSettings {
  runtime_classes: Record<string, BudgetSettings>;
  budgets: BudgetSettings;
  brake: BrakeSettings;
  brake_policy: BrakePolicy;
  drift: DriftSettings;
  repeat_failure: RepeatFailureSettings;
  boot_shift: BootShiftSettings;
  orphans: OrphanSettings;
  evidence: { keep_seconds: KeepSeconds };
  retention: { keep_seconds: RetentionSeconds };
  logs: LogSettings;
  limits: LimitSettings;
  redact: { patterns: string[] };
  operators_may: OperatorsMay;
}

const limitsOf = (limits: NonNullable<ServerFile['limits']>): LimitSettings => ({
  window_seconds: limits.window_seconds ?? defaultLimits.window_seconds,
  requests: Object.fromEntries(
    requestKinds.map((kind) => [kind, { ...defaultLimits.requests[kind], ...limits.requests?.[kind] }]),
  ) as RateSettings,
  ...(Object.fromEntries(quotaKinds.map((kind) => [kind, { ...defaultLimits[kind], ...limits[kind] }])) as Record<
    QuotaKind,
    WriteQuota
  >),
});

const validator = Compile(ServerFile);

/**
 * Fills in the defaults. Runtime classes of the file are added to the built-in ones, or override
 * their numbers.
 */
export function settingsOf(file: ServerFile): ServerFileSettings {
  const { fraction, min_nodes, ...brake } = file.brake ?? {};
  const classes = Object.entries(file.runtime_classes ?? {}).map(
    ([name, budgets]) => [name, { ...defaultRuntimeClasses[name], ...budgets }] as const,
  );
  return {
    runtime_classes: { ...defaultRuntimeClasses, ...Object.fromEntries(classes) },
    budgets: file.budgets ?? {},
    brake: { ...defaultBrakeSettings, ...brake },
    brake_policy: {
      fraction: fraction ?? defaultBrakePolicy.fraction,
      min_nodes: min_nodes ?? defaultBrakePolicy.min_nodes,
    },
    drift: { ...defaultDriftSettings, ...file.drift },
    repeat_failure: { ...defaultRepeatFailureSettings, ...file.repeat_failure },
    boot_shift: { ...defaultBootShiftSettings, ...file.boot_shift },
    orphans: { ...defaultOrphanSettings, ...file.orphans },
    evidence: { keep_seconds: { ...defaultKeepSeconds, ...file.evidence?.keep_seconds } },
    retention: { keep_seconds: { ...defaultRetentionSeconds, ...file.retention?.keep_seconds } },
    logs: { ...defaultLogSettings, ...file.logs },
    limits: limitsOf(file.limits ?? {}),
    redact: { patterns: file.redact?.patterns ?? [] },
    operators_may: (file.operators_may ?? {}) as OperatorsMay,
  };
}

/** The effective settings under the names of the file, with the default of each budget. */
export function toFileNames<Settings extends Pick<ServerFileSettings, 'brake' | 'brake_policy' | 'budgets'>>({
  brake_policy,
  ...settings
}: Settings) {
  return {
    ...settings,
    budgets: { ...defaultBudgetSettings, ...settings.budgets },
    brake: { ...brake_policy, ...settings.brake },
  };
}

/** `path` is only used in error messages. */
export function parseServerFile(text: string, path: string): ServerFileSettings {
  let parsed: unknown;
  try {
    parsed = parse(text) ?? {};
  } catch (error) {
    throw new SettingsError(`${path} is not YAML: ${error instanceof Error ? error.message : error}`);
  }
  if (validator.Check(parsed)) return settingsOf(parsed);
  const [first] = validator.Errors(parsed);
  throw new SettingsError(`${path}: ${first?.instancePath || '/'} ${first?.message ?? 'is invalid'}`);
}

export async function readServerFile(path: string | null): Promise<ServerFileSettings> {
  if (path === null) return settingsOf({});
  const text = await readFile(path, 'utf8').catch((error: Error) => {
    throw new SettingsError(`cannot read --config ${path}: ${error.message}`);
  });
  return parseServerFile(text, path);
}
