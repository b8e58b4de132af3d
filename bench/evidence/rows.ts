/**
 * Writes the evidence of a fleet that has run for three months, into the partitions that
 * housekeeping would have created.
 */
import { type Clock, now, secondsLater } from '../../src/base/clock.ts';
import { evidenceLayers } from '../../src/contract/evidence/evidence-layers.ts';
import { defaultKeepSeconds } from '../../src/lifecycle/limits/retention.ts';
import { extendEvidence } from '../../src/store/history/retention.ts';
import type { Database } from '../../src/store/pg/database.ts';

const factsPerNode = 50;
const batch = 50_000;
const daySeconds = 24 * 3600;
export const days = 100;

/**
 * Nodes have the same number of facts, however large the store is. The facts of every hundredth
 * node belong to `busyNode` instead.
 */
export const nodeOf = (i: number) => `node_${String(i).padStart(20, '0')}`;
export const busyNode = 'node_talkative';
export const correlationOf = (i: number) => `correlation-${String(i).padStart(20, '0')}`;
export const operationOf = (i: number) => `op_${String(i).padStart(20, '0')}`;

const layer = `(array[${evidenceLayers.map((each) => `'${each}'`).join(', ')}])[1 + (i * 7 + i / 13) % ${evidenceLayers.length}]`;

/**
 * Facts in order of time; each fact belongs to the next node. Ten consecutive facts share a
 * request.
 */
const insertFacts = `
  insert into evidence (at, layer, kind, summary, data, node_id, node_instance_id, correlation_id, allocation_id, workflow_id)
  select $1::timestamptz + make_interval(secs => i * $2::double precision), ${layer}, 'node.seen', 'boot stage packages took 12.3 s after ' || i || ' others',
    jsonb_build_object('seconds', i % 400, 'stage', 'packages', 'note', repeat('x', 80)),
    case i % 100 when 0 then '${busyNode}' else 'node_' || lpad((i % $3)::text, 20, '0') end, 'inst_' || lpad((i % $3)::text, 20, '0'),
    'correlation-' || lpad((i / 10)::text, 20, '0'), case when i % 2 = 0 then 'alloc_' || lpad((i % $3)::text, 20, '0') end,
    case when i % 3 = 0 then 'op_' || lpad((i / 10)::text, 20, '0') end
  from generate_series($4::bigint, $5::bigint) as i`;

const indexes = `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition from pg_index where indrelid = 'evidence'::regclass`;

export async function fillEvidence(db: Database, clock: Clock, count: number): Promise<{ nodes: number }> {
  const nodes = count / factsPerNode;
  const startAt = secondsLater(now(clock), -days * daySeconds);
  // Write one row of each layer at the start of the period, so that the partitions begin there.
  for (const each of evidenceLayers)
    await db.query(`insert into evidence (at, layer, kind, summary) values ($1, $2, 'bench.began', 'began')`, [
      startAt,
      each,
    ]);
  for (let day = 2; day <= days; day++)
    await extendEvidence(db, defaultKeepSeconds, secondsLater(startAt, day * daySeconds));
  const droppedIndexes = await db.query<{ name: string; definition: string }>(indexes);
  for (const { name } of droppedIndexes) await db.query(`drop index ${name}`);
  for (let from = 0; from < count; from += batch)
    await db.query(insertFacts, [startAt, (days * daySeconds) / count, nodes, from, Math.min(count, from + batch) - 1]);
  for (const { definition } of droppedIndexes) await db.query(definition.replace(' ON ONLY ', ' ON '));
  await db.query('vacuum analyze evidence');
  return { nodes };
}
