/** Refusals, evidence layers, budgets and row writes, for both kinds of transitions. */
import type { EvidenceLayer } from '../../contract/evidence/evidence.ts';
import { type BootShiftSettings, defaultBootShiftSettings } from '../../lifecycle/boots/boot-shift.ts';
import {
  type BrakePolicy,
  type BrakeSettings,
  defaultBrakePolicy,
  defaultBrakeSettings,
} from '../../lifecycle/brake/brake.ts';
import { type Budget, type BudgetSettings, defaultRuntimeClasses } from '../../lifecycle/deadlines/budgets.ts';
import { type Deciders, deciders } from '../../lifecycle/deciders.ts';
import {
  type DriftSettings,
  defaultDriftSettings,
  defaultRepeatFailureSettings,
  type RepeatFailureSettings,
} from '../../lifecycle/findings/findings.ts';
import { defaultOrphanSettings, type OrphanSettings } from '../../lifecycle/findings/residue.ts';
import { defaultKeepSeconds, type KeepSeconds } from '../../lifecycle/limits/retention.ts';
import { defaultRetentionSeconds, type RetentionSeconds } from '../../lifecycle/limits/retention-classes.ts';
import type { BudgetPhase } from '../../lifecycle/model/states.ts';
import { type Cause, causes, type Trigger } from '../../lifecycle/model/transitions.ts';
import { byIds } from '../pg/by-ids.ts';
import type { Row, Transaction } from '../pg/database.ts';
import { redactRows, textColumns } from '../pg/redacted-rows.ts';
import type { KnownDocument } from '../rows/pools.ts';

/** `observe_only`: the pool is observe-only, so the move was only recorded. */
export type Refusal =
  | 'not_found'
  | 'instance_fenced'
  | 'already_there'
  | 'status_moved_on'
  | 'no_such_edge'
  | 'observe_only';

type Outcome = { moved: true } | { moved: false; because: Refusal };

/** Throws if a move was refused for a reason that is not expected. */
export function requireMoved(outcomes: readonly Outcome[], ...expected: Refusal[]): void {
  for (const outcome of outcomes)
    if (!outcome.moved && !expected.includes(outcome.because))
      throw new Error(`a status could not be changed: ${outcome.because}`);
}

/** The server's settings and decision functions that transitions and rules use. */
export interface TransitionEnvironment {
  runtime_classes: Record<string, BudgetSettings>;
  /** Budgets from the server's configuration. */
  budgets: BudgetSettings;
  brake: BrakeSettings;
  /** Applies to zones, and to pools that do not set their own. */
  brake_policy: BrakePolicy;
  drift: DriftSettings;
  repeat_failure: RepeatFailureSettings;
  boot_shift: BootShiftSettings;
  orphans: OrphanSettings;
  evidence: { keep_seconds: KeepSeconds };
  retention: { keep_seconds: RetentionSeconds };
  decide: Deciders;
}

export const defaultEnvironment: TransitionEnvironment = {
  runtime_classes: defaultRuntimeClasses,
  budgets: {},
  brake: defaultBrakeSettings,
  brake_policy: defaultBrakePolicy,
  drift: defaultDriftSettings,
  repeat_failure: defaultRepeatFailureSettings,
  boot_shift: defaultBootShiftSettings,
  orphans: defaultOrphanSettings,
  evidence: { keep_seconds: defaultKeepSeconds },
  retention: { keep_seconds: defaultRetentionSeconds },
  decide: deciders,
};

const layers: Record<Trigger, EvidenceLayer> = {
  rule: 'rule',
  operation: 'workflow',
  claim: 'node',
  operator: 'operator',
};

export const evidenceLayerOf = (cause: Cause): EvidenceLayer => layers[causes[cause].trigger];

const classOf = ({ runtime_class }: KnownDocument, { runtime_classes }: TransitionEnvironment) =>
  runtime_class ? runtime_classes[runtime_class] : undefined;

/** The maximum for requested and learned budgets, from the pool or its runtime class. */
export const ceilingOf = (pool: KnownDocument, environment: TransitionEnvironment): number | undefined =>
  pool.budgets?.ceiling_seconds ?? classOf(pool, environment)?.ceiling_seconds;

export function budgetOf(
  phase: BudgetPhase,
  pool: KnownDocument,
  environment: TransitionEnvironment,
  requested_seconds: number | null,
): Budget {
  return environment.decide.resolveBudget({
    phase,
    pool: pool.budgets ?? {},
    runtime_class: classOf(pool, environment),
    server: environment.budgets,
    requested_seconds,
    learned_seconds: pool.budgets?.policy === 'learned' ? pool.learned?.seconds : null,
    external: pool.driver === 'external',
  });
}

/** For values that need no escaping: numbers and our own ids. */
export const toArrayLiteral = (values: readonly (string | number | null)[]): string =>
  `{${values.map((value) => (value === null ? 'NULL' : `"${value}"`)).join()}}`;

/** Returns the type of a column from its name, which means the same in both tables. */
const typeOf = (column: string): string => {
  if (column === 'clock_from' || /_(at|since)$/.test(column)) return 'timestamptz';
  if (column === 'budget_seconds') return 'double precision';
  if (['pool_generation', 'restarts', 'release_tries'].includes(column)) return 'integer';
  return ['verdict', 'held', 'would_have'].includes(column) ? 'jsonb' : 'text';
};

/** Writes the given columns of all rows in one statement. */
export async function writeRows<R extends Row>(
  tx: Transaction,
  table: 'nodes' | 'allocations',
  key: string,
  columns: readonly string[],
  rows: R[],
): Promise<void> {
  if (rows.length === 0) return;
  // A typed list of only the sent columns is cheaper than a record of the whole table per row.
  const sent = [key, ...columns];
  // The planner cannot estimate the rows of a JSON text. The condition on keys lets it use an
  // index.
  const keys = rows.map((row) => row[key as keyof R]);
  const { condition, value, options } = byIds(`target.${key}`, '$2', keys);
  await tx.query(
    `update ${table} target set ${columns.map((column) => `${column} = source.${column}`).join(', ')}
     from jsonb_to_recordset($1::jsonb) as source(${sent.map((column) => `${column} ${typeOf(column)}`).join(', ')})
     where target.${key} = source.${key}
       and ${condition}`,
    [
      redactRows(
        tx.redact,
        rows.map((row) => Object.fromEntries(sent.map((column) => [column, row[column as keyof R]]))),
        textColumns,
      ),
      value,
    ],
    options,
  );
}

/** Writes changed rows with one statement per set of columns. */
export async function writeChanged(
  tx: Transaction,
  table: 'nodes' | 'allocations',
  key: string,
  changed: ReadonlyMap<string, object>,
): Promise<void> {
  for (const group of Map.groupBy(changed, ([, set]) => Object.keys(set).sort().join()).values()) {
    const columns = Object.keys(group[0]?.[1] ?? {});
    const rows = group.map(([id, set]) => ({ [key]: id, ...set }));
    await writeRows(tx, table, key, columns, rows);
  }
}

export async function insertRow<R extends Row>(tx: Transaction, table: 'nodes' | 'allocations', row: R): Promise<void> {
  const columns = Object.keys(row).join(', ');
  await tx.query(
    `insert into ${table} (${columns})
     select ${columns}
     from jsonb_populate_recordset(null::${table}, $1::jsonb)`,
    [redactRows(tx.redact, [row], textColumns)],
    { prepared: true },
  );
}
