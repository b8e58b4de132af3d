/** Advance of a boot: something that was not seen before. It renews the deadline where the rules let it; repetition does not. */
import type { NodeInstanceId } from '../../base/ids.ts';
import type { BudgetSettings } from '../../lifecycle/deadlines/budgets.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { poolGeneration } from '../rows/pools.ts';
import { moveDeadlines } from './deadlines.ts';
import { budgetOf, type DoorEnvironment } from './transition-rules.ts';

/** Marks what an instance has shown of its boot; answers those that are new. */
export async function markSigns(
  tx: Transaction,
  node_instance_id: NodeInstanceId,
  signs: string[],
  now: Date,
): Promise<string[]> {
  const rows = await tx.query<{ sign: string }>(
    `insert into boot_signs (node_instance_id, sign, seen_at) select $1, sign, $3 from unnest($2::text[]) as shown(sign)
     on conflict do nothing returning sign`,
    [node_instance_id, signs, now],
  );
  return rows.map((row) => row.sign);
}

const extended = 'an operator gave it more time';

/** What a person granted is not taken away by advance that then falls silent. */
export const markExtended = (tx: Transaction, node_instance_id: NodeInstanceId, now: Date): Promise<string[]> =>
  markSigns(tx, node_instance_id, [extended], now);

async function wasExtended(tx: Transaction, node_instance_id: NodeInstanceId): Promise<boolean> {
  const rows = await tx.query('select 1 from boot_signs where node_instance_id = $1 and sign = $2', [
    node_instance_id,
    extended,
  ]);
  return rows.length > 0;
}

/** What is marked with the signs of a boot and is no advance: a person's word, and what was found wrong. */
const otherMarks = ['crashed ', 'certain failure ', 'told failure ', 'certain diagnosis ', 'diagnosis '];

/** Expects the name of the column. */
export const isAdvance = (sign: string): string =>
  `(${sign} <> '${extended}' and not (${otherMarks.map((mark) => `starts_with(${sign}, '${mark}')`).join(' or ')}))`;

/** The caller holds the lock on the node's row. */
export async function noteAdvance(
  tx: Transaction,
  node: NodeRow,
  signs: string[],
  now: Date,
  environment: DoorEnvironment,
): Promise<NodeRow> {
  const { status, deadline_at } = node;
  if ((status !== 'provisioning' && status !== 'starting') || !deadline_at || !node.node_instance_id) return node;
  const fresh = await markSigns(tx, node.node_instance_id, signs, now);
  if (fresh.length === 0) return node;
  const pool = await poolGeneration(tx, node.pool, node.pool_generation);
  if (!pool) return node;
  const settings: BudgetSettings = pool.budgets ?? {};
  const phase = status === 'provisioning' ? 'provision' : 'start';
  // What it was given, whatever has been learned meanwhile.
  const budget_seconds =
    node.budget_seconds ?? budgetOf(phase, pool, environment, node.requested_provision_seconds).seconds;
  const next = environment.decide.deadlineAfterAdvance(
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
  if (!next || (next < deadline_at && (await wasExtended(tx, node.node_instance_id)))) return node;
  const reason = `it advances (${fresh.join(', ')})`;
  const [moved] = await moveDeadlines(tx, [{ node, deadline_at: next, reason }], { layer: 'node' }, now);
  return moved ?? node;
}

/** What makes waiting for a machine pointless. */
export interface Crash {
  code: string;
  message: string;
}

const crashed = 'crashed ';

/** Marked for the operation that waits for the machine, whichever replica it runs on. */
export const markCrash = (
  tx: Transaction,
  node_instance_id: NodeInstanceId,
  { code, message }: Crash,
  now: Date,
): Promise<string[]> => markSigns(tx, node_instance_id, [`${crashed}${code} ${tx.redact.text(message)}`], now);

export async function markedCrash(db: Queryable, node_instance_id: NodeInstanceId): Promise<Crash | undefined> {
  const [row] = await db.query<{ sign: string }>(
    `select sign from boot_signs where node_instance_id = $1 and starts_with(sign, $2) order by seen_at limit 1`,
    [node_instance_id, crashed],
  );
  const [, code = '', message = ''] = /^crashed (\S+) ([\s\S]*)$/.exec(row?.sign ?? '') ?? [];
  return row && { code, message };
}
