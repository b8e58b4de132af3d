/** The evidence that an explanation cites: the change to the present status, and findings since. */
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { EvidenceKind } from '../../contract/evidence/evidence-kinds.ts';
import { refusedBeatKind } from '../../lifecycle/findings/refused-beats.ts';
import { droppedKind } from '../../lifecycle/limits/limits.ts';
import { type NodeStatus, nodeStatusNames } from '../../lifecycle/model/states.ts';
import type { Visibility } from '../../lifecycle/visibility.ts';
import type { Queryable } from '../pg/database.ts';
import { type EvidenceFilter, readTimelines } from './evidence.ts';

/** Cited beside the verdict: findings of the server, and reports of the machine. */
const found: readonly EvidenceKind[] = [
  'probe.unanswered',
  'probe.answered',
  'node.observed',
  'node.explained',
  'residue.gone',
  'residue.adopted',
  'node.held',
  'node.would_have',
  'verdict.unwritable',
  refusedBeatKind,
];
const reported: readonly EvidenceKind[] = ['bootstrap.diagnosis', 'prerequisite.missing'];

/** Only the last one is cited: a deadline may be moved often, and must not crowd out findings. */
const movedDeadline: EvidenceKind = 'node.deadline_moved';

/** Cited instead where a release failed: earlier facts about the machine explain something else. */
const ofRelease: readonly EvidenceKind[] = ['allocation.release_failed', 'driver.failed', 'driver.unanswered'];

const maxFacts = 8;
/** One query for all kinds: planning one for each kind costs more than reading 100 rows. */
const maxRecent = 100;
/** The reports of a tenant are looked for among this many of the machine's last reports. */
const maxScannedReports = 500;

const newestFirst = (a: Evidence, b: Evidence) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0);

const changeKinds: readonly EvidenceKind[] = nodeStatusNames.map((status) => `node.${status}` as const);

/**
 * A machine may report as much as its write limit allows, so the kinds that explain it have two
 * indexes of their own: one for what the server records, one for what the machine can write at
 * will. Each function says which kinds its index holds.
 */
const byServer: readonly EvidenceKind[] = [...changeKinds, ...found, movedDeadline, droppedKind];
export const explaining = { evidence_explains: byServer, evidence_is_reported_cause: reported } as const;
const explainingIndex = 'evidence_explains(kind)';
const reportedIndex = 'evidence_is_reported_cause(kind)';

/**
 * The change itself, and the facts since the change before it: earlier ones explain something else.
 * `stuckInRelease` names the allocation whose release failed; then the facts of that failure are
 * cited.
 */
export async function evidenceFor(
  db: Queryable,
  node: { node_id: string; node_instance_id: string | null; status: NodeStatus; deadline_at: string | null },
  visibility: Visibility,
  stuckInRelease: string | null,
): Promise<Evidence[]> {
  const about: EvidenceFilter = {
    node_id: node.node_id,
    order: 'newest',
    partial_index: explainingIndex,
    limit: maxRecent,
    ...(node.node_instance_id && { node_instance_id: node.node_instance_id }),
    visibility,
  };
  const reports: EvidenceFilter = stuckInRelease
    ? { allocation_id: stuckInRelease, visibility, order: 'newest', kinds: ofRelease, limit: maxFacts }
    : { ...about, partial_index: reportedIndex, max_scanned: maxScannedReports, limit: maxFacts };
  const [recent = [], reportFacts = []] = await readTimelines(db, [about, reports]);
  const wanted: readonly { kinds: readonly EvidenceKind[]; limit: number }[] = [
    { kinds: changeKinds, limit: 2 },
    { kinds: found, limit: stuckInRelease ? 0 : maxFacts },
    // The last one of each: there may be one a minute, and they must not crowd out findings.
    { kinds: [droppedKind], limit: 1 },
    { kinds: [movedDeadline], limit: stuckInRelease || node.deadline_at === null ? 0 : 1 },
  ];
  const isAmong = (kinds: readonly string[]) => (fact: Evidence) => kinds.includes(fact.kind);
  let [changes = [], ...facts] = wanted.map(({ kinds, limit }) => recent.filter(isAmong(kinds)).slice(0, limit));
  if (
    recent.length === maxRecent &&
    [changes, ...facts].some(({ length }, index) => length < (wanted[index]?.limit ?? 0))
  )
    [changes = [], ...facts] = await readTimelines(
      db,
      wanted.map((part) => ({ ...about, ...part })),
    );
  const [change, before] = changes;
  const [findings = [], ...others] = facts;
  const newest = [...findings, ...reportFacts].sort(newestFirst).slice(0, maxFacts);
  const since = [...newest, ...others.flat()].filter(({ at }) => !before || Date.parse(at) >= Date.parse(before.at));
  return [...since, ...(change ? [change] : [])].sort(newestFirst);
}

/** How long each boot stage usually takes in a pool: the median of its last boots. */
export async function usualStages(db: Queryable, pool: string, except: string): Promise<Map<string, number>> {
  const rows = await db.query<{ name: string; seconds: number }>(
    `select stage.name, percentile_cont(0.5) within group (order by stage.seconds) as seconds
     from boot_stages stage
     where stage.node_instance_id in (
       select node_instance_id from boot_samples
       where pool = $1
         and phase = 'provision'
         and node_instance_id <> $2
       order by at desc
       limit 50
     )
     group by stage.name
     having count(*) >= 3`,
    [pool, except],
  );
  return new Map(rows.map((row) => [row.name, row.seconds]));
}
