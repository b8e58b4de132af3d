/**
 * Fills a database with a fleet as it would be after months of use. Most nodes are ready and have a
 * recent heartbeat. Some are in flight, that is, being provisioned; these are spread evenly over
 * the tables. Rows are written in bulk without transitions, because creating the fleet is not
 * measured.
 */
import { now as present } from '../../src/base/clock.ts';
import type { NodeId } from '../../src/base/ids.ts';
import type { PoolDocument } from '../../src/contract/pool.ts';
import type { Pace } from '../../src/lifecycle/deadlines/pace.ts';
import { rowPadding } from '../../src/store/heartbeats/store-heartbeats.ts';
import { type Database, single } from '../../src/store/pg/database.ts';
import { databaseClock } from '../../src/store/pg/database-clock.ts';
import { repairCounts } from '../../src/store/rows/counts.ts';
import { declarePool } from '../../src/store/rows/pools.ts';
import { patienceOf } from '../../src/store/supervision/silent-nodes.ts';

const defaultPools = 20;
const zones = 6;
const nodesPerStatement = 50_000;
/** Longer than any benchmark, so that no node becomes stale while measuring. */
export const staleSeconds = 6 * 3600;
const restingPace: Pace = { interval_seconds: 10, stale_seconds: staleSeconds };

/** The same length as issued credentials. */
const credentialLength = 43;
/** The credential of the machine with this number. */
export const credentialOf = (number: number): string => `swc_${String(number).padStart(credentialLength, '0')}`;
const credential = `'swc_' || lpad(i::text, ${credentialLength}, '0')`;

/** SQL for an id like a real one: the same length, in order of creation, with a random end. */
const id = (prefix: string, salt: string) =>
  `'${prefix}_1kd' || lpad(to_hex(i), 6, '0') || substr(md5('${salt}' || i), 1, 11)`;
const node_id = id('node', 'n');
const node_instance_id = id('inst', 'i');

/**
 * $1 is the time, $2 and $3 are the first and the last node number. `inFlightCondition` is the SQL
 * condition for nodes in flight.
 */
const statements = (inFlightCondition: string, pools: number, { interval_seconds, stale_seconds }: Pace) => [
  `insert into nodes (node_id, pool, pool_generation, name, zone, status, status_since, node_instance_id, workflow_id, correlation_id,
     registered_at, deadline_at, budget_seconds, budget_source, endpoint, reported_status, observed_state, observed_at, labels, created_at, clock_from)
   select ${node_id}, 'pool-' || i % ${pools}, 1, 'machine-' || lpad(i::text, 7, '0'), 'zone-' || i % ${zones},
     case when in_flight then 'provisioning' else 'ready' end, created, ${node_instance_id}, ${id('op', 'o')}, gen_random_uuid(),
     case when not in_flight then created + interval '400 seconds' end, case when in_flight then $1::timestamptz + interval '1 hour' * (1 + random()) end,
     case when in_flight then 720 end, case when in_flight then 'pool' end, 'http://10.' || i % 200 || '.' || i / 200 % 200 || '.7:8080',
     case when not in_flight then 'ready' end, 'running', $1::timestamptz, jsonb_build_object('rack', 'r' || i % 400, 'image', '2031.07', 'team', 'team-' || i % 37), created, created
   from (select i, ${inFlightCondition} as in_flight, $1::timestamptz - interval '1 day' * (1 + random() * 90) as created from generate_series($2::int, $3::int) as i) as each`,
  `insert into instances (node_instance_id, node_id, attempt, enrollment_token_hash, credential_hash, credential_used_at, agent_version, base_url, driver_state, created_at, registered_at, registrations)
   select ${node_instance_id}, ${node_id}, 1, sha256(('enrol' || i)::bytea), sha256((${credential})::bytea), $1::timestamptz, '0.1.0',
     'http://10.' || i % 200 || '.' || i / 200 % 200 || '.7:8080', jsonb_build_object('machine', 'vm-' || i), $1::timestamptz, case when not (${inFlightCondition}) then $1::timestamptz end, 1
   from generate_series($2::int, $3::int) as i`,
  `insert into heartbeats (node_instance_id, last_seen_at, interval_seconds, stale_seconds, patience, reported, room)
   select ${node_instance_id}, $1::timestamptz - interval '1 second' * ${interval_seconds} * random(), ${interval_seconds}, ${stale_seconds}, ${patienceOf(stale_seconds)}, jsonb_build_object('load', i % 100, 'score', 0.97), ${rowPadding}
   from generate_series($2::int, $3::int) as i`,
  // Half of the idle nodes have an allocation, and one in ten has evidence that it became ready, so
  // that passes read and write realistic rows.
  `insert into allocations (allocation_id, pool, node_id, tenant, name, status, status_since, workflow_id, correlation_id, created_at, active_at)
   select ${id('alloc', 'a')}, 'pool-' || i % ${pools}, ${node_id}, 'tenant-' || i % 250, 'job-' || i, 'active', $1::timestamptz, ${id('op', 'o')}, gen_random_uuid(), $1::timestamptz, $1::timestamptz
   from generate_series($2::int, $3::int) as i where i % 2 = 1 and not (${inFlightCondition})`,
  `insert into evidence (at, layer, kind, summary, data, node_id, node_instance_id, correlation_id, workflow_id)
   select $1::timestamptz, 'rule', 'node.ready', 'starting → ready: it sends heartbeats and its start-up time is over', jsonb_build_object('from', 'starting', 'to', 'ready', 'by', 'stuck-starting'),
     ${node_id}, ${node_instance_id}, gen_random_uuid(), ${id('op', 'o')}
   from generate_series($2::int, $3::int) as i where i % 10 = 3 and not (${inFlightCondition})`,
];

const tables = ['nodes', 'instances', 'heartbeats', 'allocations'];

/** All indexes except those of constraints. */
const secondaryIndexes = `
  select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition from pg_index
  where indrelid = any($1::regclass[]) and not exists (select 1 from pg_constraint where conindid = indexrelid)`;

export interface FleetSize {
  idle: number;
  inFlight: number;
  /** The pace of the heartbeats so far. By default no node becomes stale while measuring. */
  pace?: Pace;
  pools?: number;
}

/** Returns the nodes in flight, in an order unrelated to that of the tables. */
export async function fillFleet(
  db: Database,
  { idle, inFlight, pace = restingPace, pools = defaultPools }: FleetSize,
): Promise<NodeId[]> {
  const now = present(await databaseClock(db));
  const document: PoolDocument = {
    driver: 'external',
    budgets: { provision_seconds: 720, rescue_seconds: 3600 },
  };
  for (let pool = 0; pool < pools; pool++) await db.transaction((tx) => declarePool(tx, `pool-${pool}`, document, now));
  const nodes = idle + inFlight;
  const inserts = statements(`i::bigint * ${inFlight} % ${nodes} < ${inFlight}`, pools, pace);
  await db.transaction(async (tx) => {
    // The rows satisfy their foreign keys by construction; checking them would take most of the
    // time.
    await tx.query(`set local session_replication_role = 'replica'`);
    await tx.query(`set local maintenance_work_mem = '256MB'`);
    // Rows of a table truncated in the same transaction need no WAL, and creating an index is
    // faster than maintaining it.
    await tx.query(`truncate ${tables.join(', ')} cascade`);
    const indexes = await tx.query<{ name: string; definition: string }>(secondaryIndexes, [tables]);
    for (const { name } of indexes) await tx.query(`drop index ${name}`);
    for (const insert of inserts) {
      for (let first = 1; first <= nodes; first += nodesPerStatement)
        await tx.query(insert, [now, first, Math.min(nodes, first + nodesPerStatement - 1)]);
    }
    for (const { definition } of indexes) await tx.query(definition);
    // The replica role also disables the triggers that maintain the counts.
    await repairCounts(tx, now);
  });
  for (const table of [...tables, 'evidence']) await db.query(`vacuum (analyze) ${table}`);
  await db.query('checkpoint');
  const nodesInFlight = await db.query<{ node_id: NodeId }>(
    `select node_id from nodes where status = 'provisioning' order by md5(node_id)`,
  );
  if (nodesInFlight.length !== inFlight)
    throw new Error(`expected ${inFlight} nodes in flight, found ${nodesInFlight.length}`);
  return nodesInFlight.map((row) => row.node_id);
}

export async function databaseSizeMb(db: Database): Promise<number> {
  const { bytes } = single(
    await db.query<{ bytes: number }>('select pg_database_size(current_database())::double precision as bytes'),
  );
  return bytes / 2 ** 20;
}
