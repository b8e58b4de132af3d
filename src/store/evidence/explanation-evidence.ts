/**
 * Selects the evidence that an explanation cites: the last change of status, and facts around it.
 */
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { EvidenceKind } from '../../contract/evidence/evidence-kinds.ts';
import { refusedBeatKind } from '../../lifecycle/findings/refused-beats.ts';
import { droppedKind } from '../../lifecycle/limits/limits.ts';
import { type NodeStatus, nodeStatusNames } from '../../lifecycle/model/states.ts';
import type { Visibility } from '../../lifecycle/visibility.ts';
import type { Queryable } from '../pg/database.ts';
import { type EvidenceFilter, readTimelines } from './evidence.ts';

/** Facts of the server that are cited with the change of status. */
const serverCauses: readonly EvidenceKind[] = [
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
/** Reports of the machine that are cited with the change of status. */
const machineReports: readonly EvidenceKind[] = ['bootstrap.diagnosis', 'prerequisite.missing'];

const movedDeadline: EvidenceKind = 'node.deadline_moved';

/**
 * Facts that are cited instead of causes and reports if a release failed, because facts of the
 * machine do not explain the failure.
 */
const releaseFacts: readonly EvidenceKind[] = ['allocation.release_failed', 'driver.failed', 'driver.unanswered'];

const maxFacts = 8;
/**
 * The first query reads all kinds together: planning one query per kind costs more than 100 rows.
 */
const maxRecent = 100;
/** A tenant's reports are selected from this many of the machine's last reports. */
const maxScannedReports = 500;

const newestFirst = (a: Evidence, b: Evidence) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0);

const changeKinds: readonly EvidenceKind[] = nodeStatusNames.map((status) => `node.${status}` as const);

/**
 * A machine may report as much as its write limit allows. The kinds that are cited therefore have
 * two partial indexes: one for kinds that only the server records, one for kinds that a machine can
 * report at will. The SQL function of each index returns whether a kind is in the index.
 */
const serverKinds: readonly EvidenceKind[] = [...changeKinds, ...serverCauses, movedDeadline, droppedKind];
export const citedKinds = { evidence_explains: serverKinds, evidence_is_reported_cause: machineReports } as const;
const serverIndex = 'evidence_explains(kind)';
const reportIndex = 'evidence_is_reported_cause(kind)';

/**
 * Returns the last change of status and the facts since the previous change, because older facts
 * explain an earlier status. If `stuckInRelease` names an allocation whose release failed, returns
 * the facts of that failure instead of causes and reports.
 */
export async function readCitedEvidence(
  db: Queryable,
  node: { node_id: string; node_instance_id: string | null; status: NodeStatus; deadline_at: string | null },
  visibility: Visibility,
  stuckInRelease: string | null,
): Promise<Evidence[]> {
  const nodeFilter: EvidenceFilter = {
    node_id: node.node_id,
    order: 'newest',
    partial_index: serverIndex,
    limit: maxRecent,
    ...(node.node_instance_id && { node_instance_id: node.node_instance_id }),
    visibility,
  };
  const reports: EvidenceFilter = stuckInRelease
    ? { allocation_id: stuckInRelease, visibility, order: 'newest', kinds: releaseFacts, limit: maxFacts }
    : { ...nodeFilter, partial_index: reportIndex, max_scanned: maxScannedReports, limit: maxFacts };
  const [recent = [], reportFacts = []] = await readTimelines(db, [nodeFilter, reports]);
  const wanted: readonly { kinds: readonly EvidenceKind[]; limit: number }[] = [
    { kinds: changeKinds, limit: 2 },
    { kinds: serverCauses, limit: stuckInRelease ? 0 : maxFacts },
    // Cite only the last fact of these kinds: one a minute would crowd out causes.
    { kinds: [droppedKind], limit: 1 },
    { kinds: [movedDeadline], limit: stuckInRelease || node.deadline_at === null ? 0 : 1 },
  ];
  const isAmong = (kinds: readonly string[]) => (fact: Evidence) => kinds.includes(fact.kind);
  let [changes = [], ...facts] = wanted.map(({ kinds, limit }) => recent.filter(isAmong(kinds)).slice(0, limit));
  // The recent facts may not reach back far enough, so read each kind separately.
  if (
    recent.length === maxRecent &&
    [changes, ...facts].some(({ length }, index) => length < (wanted[index]?.limit ?? 0))
  )
    [changes = [], ...facts] = await readTimelines(
      db,
      wanted.map((part) => ({ ...nodeFilter, ...part })),
    );
  const [change, earlierChange] = changes;
  const [causes = [], ...others] = facts;
  const newest = [...causes, ...reportFacts].sort(newestFirst).slice(0, maxFacts);
  const since = [...newest, ...others.flat()].filter(
    ({ at }) => !earlierChange || Date.parse(at) >= Date.parse(earlierChange.at),
  );
  return [...since, ...(change ? [change] : [])].sort(newestFirst);
}

const maxBoots = 50;
/** The median of fewer boots is no usual duration. */
const minBootsWithStage = 3;

/** Reads the median seconds of each boot stage over the last boots of a pool. */
export async function readUsualStages(
  db: Queryable,
  pool: string,
  exceptInstance: string,
): Promise<Map<string, number>> {
  const rows = await db.query<{ name: string; seconds: number }>(
    `select stage.name, percentile_cont(0.5) within group (order by stage.seconds) as seconds
     from boot_stages stage
     where stage.node_instance_id in (
       select node_instance_id
       from boot_samples
       where pool = $1
         and phase = 'provision'
         and node_instance_id <> $2
       order by at desc
       limit ${maxBoots}
     )
     group by stage.name
     having count(*) >= ${minBootsWithStage}`,
    [pool, exceptInstance],
  );
  return new Map(rows.map((row) => [row.name, row.seconds]));
}
