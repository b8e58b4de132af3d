/** Boot stages of nodes, kept under the instance that took them. */
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { BootStage } from '../../contract/node.ts';
import type { Visibility } from '../../lifecycle/visibility.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import type { Database, Queryable } from '../pg/database.ts';
import { parameters } from '../pg/walk.ts';
import { lockNode } from '../rows/nodes.ts';
import { noteAdvance } from '../transitions/advance.ts';
import { fillAllocationIds } from '../transitions/amend-node.ts';
import type { TransitionEnvironment } from '../transitions/transition-rules.ts';
import { andAll, ownStages } from '../visibility.ts';

/** A stage that one report tells twice is one stage; its last word counts. */
const lastOfEach = (stages: BootStage[]): BootStage[] => [
  ...new Map(stages.map((stage) => [JSON.stringify([stage.parent ?? '', stage.name]), stage])).values(),
];

export async function storeBootStages(
  db: Database,
  ids: { node_id: NodeId; node_instance_id: NodeInstanceId; correlation_id?: string | null },
  stages: BootStage[],
  now: Date,
  environment: TransitionEnvironment,
): Promise<void> {
  if (stages.length === 0) return;
  await db.transaction(async (tx) => {
    // The node first, as everywhere: its door may be waiting for what we write next.
    const node = await lockNode(tx, ids.node_id);
    const fresh = await tx.query<{ name: string; parent: string; seconds: number }>(
      `insert into boot_stages (node_instance_id, ordinal, name, parent, seconds, started_at, starts_seconds, reported_at)
       select $1, (select count(*) from boot_stages where node_instance_id = $1) + ordinal, stage ->> 'name', coalesce(stage ->> 'parent', ''),
         (stage ->> 'seconds')::double precision, (stage ->> 'started_at')::timestamptz,
         (stage ->> 'starts_seconds')::double precision, $3
       from jsonb_array_elements($2::jsonb) with ordinality as list(stage, ordinal)
       on conflict (node_instance_id, name, parent) do update set seconds = excluded.seconds, reported_at = excluded.reported_at
         where boot_stages.seconds is distinct from excluded.seconds
       returning name, parent, seconds`,
      [ids.node_instance_id, tx.redact.json(JSON.stringify(lastOfEach(stages))), now],
    );
    const facts = fresh.map(
      (stage): Fact => ({
        at: now,
        layer: 'node',
        kind: 'boot.stage',
        summary: `boot stage ${stage.name} took ${stage.seconds.toFixed(1)} s`,
        data: { name: stage.name, seconds: stage.seconds },
        node_id: ids.node_id,
        node_instance_id: ids.node_instance_id,
        correlation_id: (ids.correlation_id ?? node?.correlation_id) as never,
      }),
    );
    await fillAllocationIds(tx, facts);
    await recordEvidence(tx, facts);
    const signs = fresh.map(({ name, parent }) => ({
      kind: 'boot_stage' as const,
      code: parent ? `${parent}/${name}` : name,
    }));
    if (node?.node_instance_id === ids.node_instance_id) await noteAdvance(tx, node, signs, now, environment);
  });
}

interface StageRow {
  name: string;
  seconds: number;
  started_at: Date | null;
  starts_seconds: number | null;
  parent: string;
}

export async function readBootStages(
  db: Queryable,
  node_id: string,
  node_instance_id: string,
  visibility: Visibility,
): Promise<BootStage[]> {
  const { values, bind } = parameters();
  const [node, instance] = [bind(node_id), bind(node_instance_id)];
  const rows = await db.query<StageRow>(
    `select stage.name, stage.seconds, stage.started_at, stage.starts_seconds, stage.parent
     from boot_stages stage
     join instances instance on instance.node_instance_id = stage.node_instance_id
     where instance.node_id = ${node}
       and stage.node_instance_id = ${instance}
       ${andAll(ownStages(visibility, node, instance, bind))}
     order by stage.ordinal`,
    values,
    { often: true },
  );
  return rows.map(({ started_at, starts_seconds, parent, ...stage }) => ({
    ...stage,
    ...(starts_seconds !== null && { starts_seconds }),
    ...(started_at && { started_at: started_at.toISOString() }),
    ...(parent && { parent }),
  }));
}

/**
 * What a booting instance was last heard to be at: the stage that its beats name, else the last one
 * it finished.
 */
export async function latestBootNews(db: Queryable, node_instance_id: string): Promise<string | null> {
  const [row] = await db.query<{ reports: string | null; name: string | null; seconds: number | null }>(
    `select (select reported ->> 'boot_stage' from heartbeats where node_instance_id = $1) as reports, last.name, last.seconds
     from (values (1)) as one left join lateral
       (select name, seconds from boot_stages where node_instance_id = $1 order by ordinal desc limit 1) last on true`,
    [node_instance_id],
  );
  if (row?.reports) return `Boot stage ${row.reports}`;
  return row?.name ? `Boot stage ${row.name} took ${(row.seconds ?? 0).toFixed(1)} s` : null;
}
