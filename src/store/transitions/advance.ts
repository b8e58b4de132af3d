/**
 * Records signs of a boot, each once per instance. A new sign of an advance kind renews the node's
 * deadline if the rules allow it. A repeated sign changes nothing.
 */
import type { NodeInstanceId } from '../../base/ids.ts';
import type { BudgetSettings } from '../../lifecycle/deadlines/budgets.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { readGenerationDocument } from '../rows/pools.ts';
import { moveDeadlines } from './deadlines.ts';
import { budgetOf, type TransitionEnvironment } from './transition-rules.ts';

/** Renders each kind of advance for the reason of a moved deadline. */
const advances = {
  boot_stage: (stage: string) => `boot stage ${stage}`,
  reported_stage: (stage: string) => `reports ${stage}`,
  provider_state: (state: string) => `provider state ${state}`,
  /** The code names a part of the machine and its state as the driver reports them. */
  part: (part: string) => part,
} as const;

type AdvanceKind = keyof typeof advances;

/** Signs that do not renew a deadline. Recording them lets callers handle each one once. */
type OtherKind = 'crash' | 'certain_failure' | 'reported_failure' | 'certain_diagnosis' | 'diagnosis' | 'extended';

/** `code` is unique within its kind and instance. `detail` is for people. */
export interface BootSign<Kind extends string = AdvanceKind | OtherKind> {
  kind: Kind;
  code: string;
  detail?: string;
}

export type Advance = BootSign<AdvanceKind>;

/** Records signs of an instance and returns those that were not recorded before. */
export async function recordSigns<Sign extends BootSign>(
  tx: Transaction,
  node_instance_id: NodeInstanceId,
  signs: Sign[],
  now: Date,
): Promise<Sign[]> {
  const rows = await tx.query<{ kind: string; code: string }>(
    `insert into boot_signs (node_instance_id, kind, code, detail, seen_at)
     select $1, kind, code, detail, $5
     from unnest($2::text[], $3::text[], $4::text[]) as sign(kind, code, detail)
     on conflict do nothing
     returning kind, code`,
    [
      node_instance_id,
      signs.map(({ kind }) => kind),
      signs.map(({ code }) => code),
      signs.map(({ detail }) => detail ?? null),
      now,
    ],
  );
  return rows.flatMap(({ kind, code }) => signs.find((sign) => sign.kind === kind && sign.code === code) ?? []);
}

const extensionSign = { kind: 'extended', code: '' } as const;

/** Records that a person extended the deadline, so that no later advance shortens it. */
export const markExtended = (tx: Transaction, node_instance_id: NodeInstanceId, now: Date): Promise<BootSign[]> =>
  recordSigns(tx, node_instance_id, [extensionSign], now);

async function isExtended(tx: Transaction, node_instance_id: NodeInstanceId): Promise<boolean> {
  const rows = await tx.query(
    `select 1
     from boot_signs
     where node_instance_id = $1
       and kind = $2`,
    [node_instance_id, extensionSign.kind],
  );
  return rows.length > 0;
}

export const advanceKinds: readonly string[] = Object.keys(advances);

/** Renews the node's deadline if a sign is new. The caller holds the lock on the node's row. */
export async function noteAdvance(
  tx: Transaction,
  node: NodeRow,
  signs: Advance[],
  now: Date,
  environment: TransitionEnvironment,
): Promise<NodeRow> {
  const { status, deadline_at } = node;
  if ((status !== 'provisioning' && status !== 'starting') || !deadline_at || !node.node_instance_id) return node;
  const newSigns = await recordSigns(tx, node.node_instance_id, signs, now);
  if (newSigns.length === 0) return node;
  const pool = await readGenerationDocument(tx, node.pool, node.pool_generation);
  if (!pool) return node;
  const settings: BudgetSettings = pool.budgets ?? {};
  const phase = status === 'provisioning' ? 'provision' : 'start';
  // The budget that the boot started with, even if another was learned since.
  const budget_seconds =
    node.budget_seconds ?? budgetOf(phase, pool, environment, node.requested_provision_seconds).seconds;
  const renewed = environment.decide.deadlineAfterAdvance(
    {
      status,
      clock_from: (status === 'provisioning' ? node.clock_from : null) ?? node.status_since,
      budget_seconds,
      deadline_at,
      progress_aware: settings.progress_aware ?? false,
      silence_seconds: settings.silence_seconds,
    },
    now,
  );
  if (!renewed || (renewed < deadline_at && (await isExtended(tx, node.node_instance_id)))) return node;
  const reason = `the boot advances (${newSigns.map(({ kind, code }) => advances[kind](code)).join(', ')})`;
  const [moved] = await moveDeadlines(tx, [{ node, deadline_at: renewed, reason }], { layer: 'node' }, now);
  return moved ?? node;
}

/** Why the machine will never come up. */
export interface Crash {
  code: string;
  message: string;
}

/** Records a crash so that the operation waiting for the machine sees it on any replica. */
export const markCrash = (
  tx: Transaction,
  node_instance_id: NodeInstanceId,
  { code, message }: Crash,
  now: Date,
): Promise<BootSign[]> =>
  recordSigns(tx, node_instance_id, [{ kind: 'crash', code, detail: tx.redact.text(message) }], now);

export async function readCrash(db: Queryable, node_instance_id: NodeInstanceId): Promise<Crash | undefined> {
  const [row] = await db.query<Crash>(
    `select code, coalesce(detail, '') as message
     from boot_signs
     where node_instance_id = $1
       and kind = 'crash'
     order by seen_at
     limit 1`,
    [node_instance_id],
  );
  return row;
}
