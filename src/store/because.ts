/** The evidence that an explanation cites: the change that brought a node where it stands, and what was found out about it since. */
import type { Evidence } from '../contract/evidence.ts';
import type { NodeStatus } from '../lifecycle/states.ts';
import type { Queryable } from './database.ts';
import { readTimeline } from './evidence.ts';

/** What somebody on call wants to see beside the verdict. */
const telling = [
  'bootstrap.diagnosis',
  'prerequisite.missing',
  'probe.unanswered',
  'probe.answered',
  'node.deadline_moved',
  'node.held',
  'node.would_have',
  'verdict.unwritable',
];

const mostFacts = 12;

export async function evidenceFor(
  db: Queryable,
  node: { node_id: string; node_instance_id: string | null; status: NodeStatus },
  tenant: string | null,
): Promise<Evidence[]> {
  const { items } = await readTimeline(db, {
    node_id: node.node_id,
    kinds: [`node.${node.status}`, ...telling],
    limit: mostFacts,
    order: 'newest',
    ...(node.node_instance_id && { node_instance_id: node.node_instance_id }),
    ...(tenant !== null && { tenant }),
  });
  // Everything up to and including the change that made it what it is; what came before explains something else.
  const change = items.findIndex((fact) => fact.kind === `node.${node.status}`);
  return change === -1 ? items : items.slice(0, change + 1);
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
