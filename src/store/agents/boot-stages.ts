/** Stores and reads the boot stages of instances. */
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

/** Keeps the last of repeated stages, because the upsert would refuse a repetition. */
const dedupeStages = (stages: BootStage[]): BootStage[] => [
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
    // Every transaction locks the node first. Another order could deadlock with a transition.
    const node = await lockNode(tx, ids.node_id);
    const changed = await tx.query<{ name: string; parent: string; seconds: number }>(
      `insert into boot_stages
         (node_instance_id, ordinal, name, parent, seconds, started_at, starts_seconds, reported_at)
       select
         $1,
         (select count(*) from boot_stages where node_instance_id = $1) + ordinal,
         stage ->> 'name',
         coalesce(stage ->> 'parent', ''),
         (stage ->> 'seconds')::double precision,
         (stage ->> 'started_at')::timestamptz,
         (stage ->> 'starts_seconds')::double precision,
         $3
       from jsonb_array_elements($2::jsonb) with ordinality as list(stage, ordinal)
       on conflict (node_instance_id, name, parent) do update
       set seconds = excluded.seconds,
         started_at = excluded.started_at,
         starts_seconds = excluded.starts_seconds,
         reported_at = excluded.reported_at
       -- A repeated report returns no row, so it records no second fact.
       where boot_stages.seconds is distinct from excluded.seconds
       returning name, parent, seconds`,
      [ids.node_instance_id, tx.redact.json(JSON.stringify(dedupeStages(stages))), now],
    );
    const facts = changed.map(
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
    const advances = changed.map(({ name, parent }) => ({
      kind: 'boot_stage' as const,
      code: parent ? `${parent}/${name}` : name,
    }));
    if (node?.node_instance_id === ids.node_instance_id) await noteAdvance(tx, node, advances, now, environment);
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
    { prepared: true },
  );
  return rows.map(({ started_at, starts_seconds, parent, ...stage }) => ({
    ...stage,
    ...(starts_seconds !== null && { starts_seconds }),
    ...(started_at && { started_at: started_at.toISOString() }),
    ...(parent && { parent }),
  }));
}

/** Describes the stage that the heartbeats name, or else the last stage the instance finished. */
export async function describeBootProgress(db: Queryable, node_instance_id: string): Promise<string | null> {
  const [row] = await db.query<{ reported: string | null; name: string | null; seconds: number | null }>(
    `select
       (select reported ->> 'boot_stage' from heartbeats where node_instance_id = $1) as reported,
       last.name,
       last.seconds
     -- Returns one row even if the instance has finished no stage.
     from (values (1)) as one
     left join lateral (
       select name, seconds
       from boot_stages
       where node_instance_id = $1
       order by ordinal desc
       limit 1
     ) last on true`,
    [node_instance_id],
  );
  if (row?.reported) return `Boot stage ${row.reported}`;
  return row?.name ? `Boot stage ${row.name} took ${(row.seconds ?? 0).toFixed(1)} s` : null;
}
