/** For tests and benchmarks: inserts boot samples. */
import { randomUUID } from 'node:crypto';
import { secondsLater } from '../../base/clock.ts';
import type { SamplePhase } from '../../lifecycle/boots/boot-samples.ts';
import type { TimedBoot } from '../../lifecycle/boots/survival.ts';
import type { Queryable } from '../pg/database.ts';

export interface RecordedBoots {
  pool: string;
  boots: readonly TimedBoot[];
  /** When the first boot of the list ended. Each following boot ended one second earlier. */
  until: Date;
  phase?: SamplePhase;
  generation?: number;
  zone?: string | null;
  runtime_class?: string | null;
}

export async function recordBoots(db: Pick<Queryable, 'query'>, recorded: RecordedBoots): Promise<string[]> {
  const { pool, boots, until, phase = 'provision', generation = 1, zone = null, runtime_class = null } = recorded;
  const ids = boots.map(() => `nod_${randomUUID()}`);
  await db.query(
    `insert into boot_samples (
       node_instance_id, node_id, phase, pool, pool_generation, runtime_class, zone,
       started_at, seconds, outcome, at)
     select 'ins_' || node_id, node_id, $4, $5, $6, $7, $8,
       $9::timestamptz - make_interval(secs => place), seconds, outcome,
       $9::timestamptz - make_interval(secs => place)
     from unnest($1::text[], $2::float8[], $3::text[]) with ordinality as boot(node_id, seconds, outcome, place)`,
    [
      ...[ids, boots.map(({ seconds }) => seconds), boots.map(({ outcome }) => outcome), phase, pool],
      ...[generation, runtime_class, zone, secondsLater(until, 1)],
    ],
  );
  return ids;
}

/** Returns completed boots whose durations are evenly spread up to the slowest. */
export const evenBoots = (count: number, slowest_seconds: number): TimedBoot[] =>
  Array.from({ length: count }, (_, at) => ({ seconds: (slowest_seconds * (at + 1)) / count, outcome: 'completed' }));
