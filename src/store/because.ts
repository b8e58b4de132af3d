/** The evidence that an explanation cites: the change that brought a node where it stands, and what was found out about it since. */
import type { Evidence } from '../contract/evidence.ts';
import type { EvidenceKind } from '../contract/evidence-kinds.ts';
import { droppedKind } from '../lifecycle/limits.ts';
import { refusedBeatKind } from '../lifecycle/refused-beats.ts';
import { type NodeStatus, nodeStatusNames } from '../lifecycle/states.ts';
import type { Queryable } from './database.ts';
import { readTimelines } from './evidence.ts';

/** What somebody on call wants to see beside the verdict. */
const telling: readonly EvidenceKind[] = [
  'bootstrap.diagnosis',
  'prerequisite.missing',
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

/** Of one that still has a deadline, the last of them: on a bad day it is moved often, and must not crowd out what was found. */
const movedDeadline: EvidenceKind = 'node.deadline_moved';

/** What became of a release, instead: what was told of the machine before explains something else. */
const ofRelease: readonly EvidenceKind[] = ['allocation.release_failed', 'driver.failed', 'driver.unanswered'];

const mostFacts = 8;

/**
 * The change itself, and what was told since the one before it: what came earlier explains something else. Of one whose release
 * failed, named by its allocation, what failed.
 */
export async function evidenceFor(
  db: Queryable,
  node: { node_id: string; node_instance_id: string | null; status: NodeStatus; deadline_at: string | null },
  tenant: string | null,
  stuckInRelease: string | null,
): Promise<Evidence[]> {
  const about = {
    node_id: node.node_id,
    order: 'newest' as const,
    ...(node.node_instance_id && { node_instance_id: node.node_instance_id }),
    ...(tenant !== null && { tenant }),
  };
  const kinds = nodeStatusNames.map((status): EvidenceKind => `node.${status}`);
  const told = stuckInRelease
    ? { allocation_id: stuckInRelease, order: 'newest' as const, kinds: ofRelease }
    : { ...about, kinds: telling };
  const moved = { ...about, kinds: [movedDeadline], limit: 1 };
  const dropped = { ...about, kinds: [droppedKind] as const, limit: 1 };
  const hasDeadline = !stuckInRelease && node.deadline_at !== null;
  const [changes = [], ...facts] = await readTimelines(db, [
    { ...about, kinds, limit: 2 },
    { ...told, limit: mostFacts },
    // The last one: a machine over its write limit has one a minute, and they must not crowd out what was found.
    dropped,
    ...(hasDeadline ? [moved] : []),
  ]);
  const [change, before] = changes;
  const since = facts.flat().filter(({ at }) => !before || Date.parse(at) >= Date.parse(before.at));
  return [...since, ...(change ? [change] : [])].sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
}

/** What a stage of the boot usually takes in a pool: the median of its last boots. */
export async function usualStages(db: Queryable, pool: string, except: string): Promise<Map<string, number>> {
  const rows = await db.query<{ name: string; seconds: number }>(
    `select stage.name, percentile_cont(0.5) within group (order by stage.seconds) as seconds from boot_stages stage
     where stage.node_instance_id in (select node_instance_id from boot_samples
       where pool = $1 and phase = 'provision' and node_instance_id <> $2 order by at desc limit 50)
     group by stage.name having count(*) >= 3`,
    [pool, except],
  );
  return new Map(rows.map((row) => [row.name, row.seconds]));
}
