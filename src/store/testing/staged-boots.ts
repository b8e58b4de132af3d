/** For tests: inserts boots of retired nodes with their stages. */
import { secondsLater } from '../../base/clock.ts';
import { storeBootSamples } from '../boots/boot-samples.ts';
import type { Database } from '../pg/database.ts';
import { placeNodes } from './placed-nodes.ts';

export interface StagedBoots {
  pool: string;
  count: number;
  /** The number of nodes that the pool has already. */
  after?: number;
  /** When the first boot began. */
  from: Date;
  /** The interval between the starts of two boots. */
  every_seconds: number;
  /**
   * The seconds of each stage. The stages run one after the other within `start-up`. Durations vary
   * slightly between boots, but not randomly.
   */
  stages: Record<string, number>;
  generation?: number;
  image?: string;
}

const parentStage = 'start-up';

export async function recordStagedBoots(db: Database, wanted: StagedBoots): Promise<void> {
  const { pool, count, after = 0, from, every_seconds, generation = 1, image = null } = wanted;
  const ids = await placeNodes(db, { pool, count, after, status: 'retired', since: from });
  const boots = ids.map((node_id, place) => {
    const variation = 1 + (((after + place) * 37) % 41) / 400;
    const parts = Object.entries(wanted.stages).map(([name, seconds]) => ({ name, seconds: seconds * variation }));
    return {
      node_id,
      node_instance_id: node_id.replace('node_', 'inst_'),
      started_at: secondsLater(from, place * every_seconds),
      seconds: parts.reduce((sum, part) => sum + part.seconds, 0),
      parts,
    };
  });
  const samples = boots.map(({ node_id, node_instance_id, started_at, seconds }) => ({
    ...{ phase: 'provision', outcome: 'completed', node_id, node_instance_id, pool, pool_generation: generation },
    ...{ runtime_class: null, zone: null, image, started_at, seconds, at: secondsLater(started_at, seconds) },
    ...{ lateness_seconds: null, budget_seconds: 720, budget_source: 'pool' },
  }));
  await db.transaction((tx) => storeBootSamples(tx, samples as Parameters<typeof storeBootSamples>[1]));
  const stages = boots.flatMap(({ node_instance_id, seconds, parts }) => [
    { node_instance_id, ordinal: 1, name: parentStage, parent: '', seconds },
    ...parts.map((part, place) => ({ node_instance_id, ordinal: 2 + place, ...part, parent: parentStage })),
  ]);
  await db.query(
    `insert into boot_stages (node_instance_id, ordinal, name, parent, seconds, reported_at)
     select node_instance_id, ordinal, name, parent, seconds, $2
     from jsonb_populate_recordset(null::boot_stages, $1::jsonb)`,
    [JSON.stringify(stages), from],
  );
}
