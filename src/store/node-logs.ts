/** Durable logs and boot stages of nodes, kept under the instance that wrote them. */
import type { NodeId, NodeInstanceId } from '../base/ids.ts';
import type { ShippedLine } from '../contract/agent.ts';
import type { BootStage, LogLine } from '../contract/node.ts';
import type { Page } from '../contract/primitives.ts';
import { noteAdvance } from './advance.ts';
import { holderOf } from './allocations.ts';
import { nameAllocations } from './amend-node.ts';
import type { Database, Queryable } from './database.ts';
import type { DoorEnvironment } from './door-rules.ts';
import { type Fact, recordEvidence } from './evidence.ts';
import { lockNode } from './nodes.ts';

interface LogRow extends Omit<LogLine, 'seq' | 'at'> {
  seq: string;
  at: Date;
}

/**
 * Stores lines once: a sequence number that is already there is a repeat. Answers the highest durable one without a gap before it in this batch.
 *
 * Whose they are, the row knows, and is asked in the same statement: what a replica remembers may still be the former tenant.
 */
export async function storeLines(
  db: Queryable,
  node: { node_id: NodeId; node_instance_id: NodeInstanceId },
  lines: ShippedLine[],
): Promise<number> {
  await db.query(
    `insert into node_logs (node_instance_id, seq, node_id, allocation_id, at, stream, line)
     select $1, seq, $2, ${holderOf('$2')}, at, stream, line
     from jsonb_to_recordset($3::jsonb) as shipped(seq bigint, at timestamptz, stream text, line text)
     on conflict do nothing`,
    [node.node_instance_id, node.node_id, db.redact.json(JSON.stringify(lines))],
  );
  return lines.reduce((last, line) => Math.max(last, line.seq), 0);
}

export interface LogFilter {
  node_id: string;
  instance?: string;
  since?: string;
  q?: string;
  tail?: boolean;
  after?: { node_instance_id: string; seq: number };
  tenant: string | null;
  limit: number;
}

export async function readLines(db: Queryable, filter: LogFilter): Promise<Page<LogLine>> {
  const values: unknown[] = [filter.node_id];
  const bind = (value: unknown) => `$${values.push(value)}`;
  const where = ['node_id = $1'];
  if (filter.instance) where.push(`node_instance_id = ${bind(filter.instance)}`);
  if (filter.since) where.push(`at >= ${bind(filter.since)}::timestamptz`);
  if (filter.q) where.push(`line ilike ${bind(`%${filter.q.replace(/[\\%_]/g, '\\$&')}%`)}`);
  if (filter.tenant !== null)
    where.push(`allocation_id in (select allocation_id from allocations where tenant = ${bind(filter.tenant)})`);
  if (filter.after)
    where.push(`(node_instance_id, seq) > (${bind(filter.after.node_instance_id)}, ${bind(filter.after.seq)})`);
  const direction = filter.tail ? 'desc' : 'asc';
  const rows = await db.query<LogRow>(
    `select node_instance_id, seq, at, stream, line from node_logs where ${where.join(' and ')}
     order by node_instance_id ${direction}, seq ${direction} limit ${bind(filter.limit)}`,
    values,
  );
  if (filter.tail) rows.reverse();
  const items = rows.map((row) => ({ ...row, seq: Number(row.seq), at: row.at.toISOString() }));
  const last = items.at(-1);
  return { items, next_cursor: last ? `${last.node_instance_id}-${last.seq}` : null };
}

/** The last lines of an instance, oldest first. */
export async function lastLines(db: Queryable, node_instance_id: NodeInstanceId, limit = 200): Promise<string[]> {
  const rows = await db.query<{ line: string }>(
    'select line from node_logs where node_instance_id = $1 order by seq desc limit $2',
    [node_instance_id, limit],
  );
  return rows.map((row) => row.line).reverse();
}

export function parseLogCursor(text: string): { node_instance_id: string; seq: number } | undefined {
  const match = /^(.+)-(\d{1,15})$/.exec(text);
  return match?.[1] && match[2] ? { node_instance_id: match[1], seq: Number(match[2]) } : undefined;
}

/** A stage that one report tells twice is one stage; its last word counts. */
const lastOfEach = (stages: BootStage[]): BootStage[] => [
  ...new Map(stages.map((stage) => [JSON.stringify([stage.parent ?? '', stage.name]), stage])).values(),
];

export async function storeBootStages(
  db: Database,
  ids: { node_id: NodeId; node_instance_id: NodeInstanceId; correlation_id: string | null },
  stages: BootStage[],
  now: Date,
  environment: DoorEnvironment,
): Promise<void> {
  if (stages.length === 0) return;
  await db.transaction(async (tx) => {
    // The node first, as everywhere: its door may be waiting for what we write next.
    const node = await lockNode(tx, ids.node_id);
    const fresh = await tx.query<{ name: string; parent: string; seconds: number }>(
      `insert into boot_stages (node_instance_id, ordinal, name, parent, seconds, started_at, reported_at)
       select $1, (select count(*) from boot_stages where node_instance_id = $1) + ordinal, stage ->> 'name', coalesce(stage ->> 'parent', ''),
         (stage ->> 'seconds')::double precision, (stage ->> 'started_at')::timestamptz, $3
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
        correlation_id: ids.correlation_id as never,
      }),
    );
    await nameAllocations(tx, facts);
    await recordEvidence(tx, facts);
    const signs = fresh.map(({ name, parent }) => `boot stage ${parent ? `${parent}/` : ''}${name}`);
    if (node?.node_instance_id === ids.node_instance_id) await noteAdvance(tx, node, signs, now, environment);
  });
}

export async function readBootStages(db: Queryable, node_id: string, node_instance_id: string): Promise<BootStage[]> {
  const rows = await db.query<{ name: string; seconds: number; started_at: Date | null; parent: string }>(
    `select stage.name, stage.seconds, stage.started_at, stage.parent from boot_stages stage
     join instances instance on instance.node_instance_id = stage.node_instance_id
     where instance.node_id = $1 and stage.node_instance_id = $2 order by stage.ordinal`,
    [node_id, node_instance_id],
  );
  return rows.map(({ started_at, parent, ...stage }) => ({
    ...stage,
    ...(started_at && { started_at: started_at.toISOString() }),
    ...(parent && { parent }),
  }));
}
