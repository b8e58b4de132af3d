/**
 * Stores findings. A finding starts as `seen`, is opened when enough passes have confirmed it, and
 * is closed when the two sides agree again or when someone settles it. Opening, resolving and
 * settling record evidence.
 */
import type { AllocationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Actor, EvidenceLayer } from '../../contract/evidence/evidence.ts';
import type { Page } from '../../contract/primitives.ts';
import { renderFinding } from '../../lifecycle/findings/finding-says.ts';
import {
  type FindingKind,
  type FindingStatus,
  type FindingWhat,
  findingCatalogue,
} from '../../lifecycle/findings/findings.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import type { Queryable, Transaction } from '../pg/database.ts';

/**
 * The values of one side: `ours` is what the control plane stored, `theirs` what it compared with.
 */
export type Side = Record<string, unknown>;

export interface Disagreement {
  what: FindingWhat;
  /** The id of the node, allocation, pool generation, boot phase or token that differs. */
  subject: string;
  /** Null for a token without a pool. */
  pool: string | null;
  node_id: NodeId | null;
  node_instance_id: NodeInstanceId | null;
  allocation_id: AllocationId | null;
  ours: Side;
  theirs: Side;
}

export interface FindingRow extends Disagreement {
  finding_id: string;
  kind: FindingKind;
  first_seen_at: Date;
  seen_at: Date;
  passes: number;
  opened_at: Date | null;
  status: FindingStatus;
  closed_at: Date | null;
  actor: Actor | null;
  reason: string | null;
}

const factsByStatus: Record<Exclude<FindingStatus, 'seen'>, { kind: Fact['kind']; verb: string }> = {
  open: { kind: 'finding.opened', verb: 'found' },
  resolved: { kind: 'finding.resolved', verb: 'resolved' },
  repaired: { kind: 'finding.repaired', verb: 'repaired' },
  accepted: { kind: 'finding.accepted', verb: 'accepted' },
};

const factOf = (finding: FindingRow, at: Date, layer: EvidenceLayer) => {
  const { kind, verb } = factsByStatus[finding.status as keyof typeof factsByStatus];
  const { finding_id, what, subject, pool, ours, theirs, passes, first_seen_at, reason } = finding;
  return {
    at,
    layer,
    kind,
    summary: `${verb}: ${renderFinding(finding)}${reason ? ` (${reason})` : ''}`,
    data: { finding_id, what, subject, pool, ours, theirs, passes, first_seen_at, reason },
    actor: finding.actor,
    node_id: finding.node_id,
    node_instance_id: finding.node_instance_id,
    allocation_id: finding.allocation_id,
  };
};

/**
 * Stores the disagreements of one pass, and returns the findings that it opened. A disagreement
 * that another replica saw after `same_pass_since` counts as seen in this pass. `isConfirmed`
 * decides after how many passes a finding is opened.
 */
export async function noteDisagreements(
  tx: Transaction,
  disagreements: readonly (Disagreement & { finding_id: string })[],
  same_pass_since: Date,
  now: Date,
  isConfirmed: (passes: number) => boolean,
): Promise<FindingRow[]> {
  if (disagreements.length === 0) return [];
  const seen = await tx.query<FindingRow>(
    `insert into findings as existing (
       finding_id, kind, what, subject, pool, node_id, node_instance_id, allocation_id,
       ours, theirs, first_seen_at, seen_at, status)
     select finding_id, kind, what, subject, pool, node_id, node_instance_id, allocation_id,
       ours, theirs, $2, $2, 'seen'
     from jsonb_to_recordset($1::jsonb) as found(
       finding_id text, kind text, what text, subject text, pool text, node_id text,
       node_instance_id text, allocation_id text, ours jsonb, theirs jsonb)
     -- All replicas lock rows in the same order, so they cannot deadlock.
     order by what, subject
     on conflict (what, subject) where closed_at is null do update
       set seen_at = excluded.seen_at, passes = existing.passes + 1,
         allocation_id = excluded.allocation_id, ours = excluded.ours, theirs = excluded.theirs
       where existing.seen_at <= $3
     returning *`,
    [
      JSON.stringify(disagreements.map((each) => ({ ...each, kind: findingCatalogue[each.what].kind }))),
      now,
      same_pass_since,
    ],
  );
  const confirmed = seen.filter(({ status, passes }) => status === 'seen' && isConfirmed(passes));
  if (confirmed.length === 0) return [];
  const opened = await tx.query<FindingRow>(
    `update findings
     set status = 'open', opened_at = $2
     where finding_id = any($1)
       and status = 'seen'
     returning *`,
    [confirmed.map(({ finding_id }) => finding_id), now],
  );
  await recordEvidence(
    tx,
    opened.map((finding) => factOf(finding, now, 'rule')),
  );
  return opened;
}

/**
 * Ends findings in which the two sides agree again. Those that were never opened are deleted,
 * accepted ones are closed, and open ones are resolved with a fact. Returns how many were resolved.
 */
export async function endFindings(
  tx: Transaction,
  findings: readonly Pick<FindingRow, 'finding_id'>[],
  reason: string,
  now: Date,
): Promise<number> {
  if (findings.length === 0) return 0;
  const ids = findings.map(({ finding_id }) => finding_id);
  await tx.query(`delete from findings where finding_id = any($1) and status = 'seen'`, [ids]);
  await tx.query(
    `update findings
     set closed_at = $2
     where finding_id = any($1)
       and status = 'accepted'
       and closed_at is null`,
    [ids, now],
  );
  const resolved = await tx.query<FindingRow>(
    `update findings
     set status = 'resolved', closed_at = $2, reason = $3
     where finding_id = any($1)
       and status = 'open'
     returning *`,
    [ids, now, reason],
  );
  await recordEvidence(
    tx,
    resolved.map((finding) => factOf(finding, now, 'rule')),
  );
  return resolved.length;
}

export interface FindingSettlement {
  status: 'repaired' | 'accepted';
  reason: string;
  actor: Actor | null;
  /** The finding was accepted as is, and is closed only when the two sides agree. */
  keep?: boolean;
}

/**
 * Settles a finding for an operator or for the pool's policy. Returns undefined if the finding is
 * no longer open.
 */
export async function settleFinding(
  tx: Transaction,
  finding_id: string,
  { status, reason, actor, keep = false }: FindingSettlement,
  now: Date,
): Promise<FindingRow | undefined> {
  const [settled] = await tx.query<FindingRow>(
    `update findings
     set status = $2, reason = $3, actor = $4, closed_at = $5
     where finding_id = $1
       and status = 'open'
     returning *`,
    [finding_id, status, tx.redact.value(reason), actor, keep ? null : now],
  );
  if (settled) await recordEvidence(tx, [factOf(settled, now, actor ? 'operator' : 'rule')]);
  return settled;
}

/** Reads the findings that are not closed: seen, open, or accepted and kept. */
export const standingFindings = (
  db: Queryable,
  what: readonly FindingWhat[],
  subjects?: readonly string[],
): Promise<FindingRow[]> =>
  db.query<FindingRow>(
    `select * from findings
     where closed_at is null
       and what = any($1)
       and ($2::text[] is null or subject = any($2))`,
    [what, subjects ?? null],
  );

/** Reads the open findings about a node, and about slower boots with one of these subjects. */
export const readOpenFindings = (
  db: Queryable,
  node_id: string,
  bootSubjects: readonly string[],
): Promise<FindingRow[]> =>
  db.query<FindingRow>(
    `select * from findings
     where node_id = $1
       and status = 'open'
     union all
     select * from findings
     where what = 'boots_slower'
       and subject = any($2)
       and closed_at is null
       and status = 'open'
     order by finding_id`,
    [node_id, bootSubjects],
    { prepared: true },
  );

export async function findingRow(db: Queryable, id: string): Promise<FindingRow | undefined> {
  return (await db.query<FindingRow>('select * from findings where finding_id = $1', [id]))[0];
}

export interface FindingFilter {
  kind?: string | undefined;
  status: string;
  pool?: string | undefined;
  node_id?: string | undefined;
  after?: string | undefined;
  limit: number;
}

/** Lists findings, newest first. */
export async function listFindings(db: Queryable, filter: FindingFilter): Promise<Page<FindingRow>> {
  const { status, kind, pool, node_id, after, limit } = filter;
  const rows = await db.query<FindingRow>(
    `select * from findings
     where status = $1
       and ($2::text is null or kind = $2)
       and ($3::text is null or pool = $3)
       and ($4::text is null or node_id = $4)
       and ($5::text is null or finding_id < $5)
     order by finding_id desc
     limit $6`,
    [status, kind ?? null, pool ?? null, node_id ?? null, after ?? null, limit + 1],
  );
  const items = rows.slice(0, limit);
  return { items, next_cursor: rows.length > limit ? (items.at(-1)?.finding_id ?? null) : null };
}

export const countOpenFindings = (db: Queryable): Promise<{ kind: FindingKind; count: number }[]> =>
  db.query(
    `select kind, count(*)::int as count
     from findings
     where status = 'open'
     group by 1
     order by 1`,
  );
