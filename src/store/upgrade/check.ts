/** Reads what an upgrade of this database to this version would do. Changes nothing. */
import type pg from 'pg';
import { packageVersion } from '../../base/files/package-root.ts';
import { type Migration, readMigrations } from '../migrate.ts';
import {
  type Effect,
  type MigrationStep,
  migrationSteps,
  runsFrom,
  type Work,
  windowSchema,
} from './migration-steps.ts';
import { isBeforeWindow, releases } from './releases.ts';
import {
  type AppliedMigration,
  listAppliedMigrations,
  listRunningReplicas,
  neededSchema,
  type RunningReplica,
  toKnownSchema,
} from './window.ts';

/** Conservative for a small server with a slow disk. */
const bytesPerSecond: Record<Exclude<Work, 'catalog'>, number> = {
  scan: 100_000_000,
  index: 20_000_000,
  rewrite: 20_000_000,
  rows: 5_000_000,
};
/** The further disk that the work needs, as a share of the table. */
const diskShare: Record<Work, number> = { catalog: 0, scan: 0, index: 0.5, rewrite: 1, rows: 1 };
/** Longer than this, calls and heartbeats of the fleet time out. */
const maxBlockedSeconds = 5;

export interface PlannedEffect extends Effect {
  /** The table with its indexes. */
  bytes: number;
  seconds: number;
}

export interface PlannedMigration {
  name: string;
  step: MigrationStep['step'];
  effects: PlannedEffect[];
}

/** With one of the first two, the start would fail. The others need a person's attention first. */
export type UpgradeFinding =
  | { code: 'schema_too_new'; needs: number }
  | { code: 'replicas_too_old'; needs: number; replica_ids: string[] }
  | { code: 'no_rollback'; because: 'before_window' | 'contract'; migrations: string[] }
  | { code: 'blocks_long'; migration: string; table: string; blocks: Effect['blocks']; seconds: number }
  | { code: 'disk_short'; needed_bytes: number; free_bytes: number }
  | { code: 'disk_unknown'; needed_bytes: number }
  | { code: 'agents_too_old'; nodes: number };

export interface UpgradeReport {
  version: string;
  schema: { database: number; program: number };
  verdict: 'ready' | 'attention' | 'refused';
  migrations: PlannedMigration[];
  /** Which servers run on the schema afterwards. */
  rollback: { possible: boolean; runs_from: number; releases: string[] };
  replicas: (RunningReplica & { knows: number })[];
  agents: { version: string | null; nodes: number; supported: boolean }[];
  disk: { needed_bytes: number; free_bytes: number | null };
  findings: UpgradeFinding[];
}

interface CheckOptions {
  /** For tests: the version to upgrade to. */
  version?: string;
  folder?: string;
  steps?: Readonly<Record<string, MigrationStep>>;
  /** Free on the disk of the database; null if the database is on another host. */
  free_bytes: number | null;
}

async function readTableSizes(client: pg.ClientBase): Promise<Map<string, number>> {
  const { rows } = await client.query<{ name: string; bytes: string }>(
    `select coalesce(pg_partition_root(oid), oid)::regclass::text as name,
            sum(pg_total_relation_size(oid)) as bytes
     from pg_class
     where relnamespace = 'public'::regnamespace
       and relkind in ('r', 'p')
     group by 1`,
  );
  return new Map(rows.map(({ name, bytes }) => [name, Number(bytes)]));
}

async function countAgents(client: pg.ClientBase, present: string): Promise<UpgradeReport['agents']> {
  const { rows: found } = await client.query(`select where to_regclass('instances') is not null`);
  if (found.length === 0) return [];
  const { rows } = await client.query<{ version: string | null; nodes: number }>(
    `select substring(agent_version from '^slipway-agent/(.+)$') as version,
            count(*)::integer as nodes
     from nodes
     join instances using (node_instance_id)
     where nodes.status <> 'retired'
     group by 1
     order by 1`,
  );
  return rows.map((row) => ({ ...row, supported: row.version === null || !isBeforeWindow(row.version, present) }));
}

function planMigration(
  { name }: Migration,
  step: MigrationStep | undefined,
  sizes: Map<string, number>,
): PlannedMigration {
  const effects = (step?.effects ?? []).map((effect) => {
    const bytes = sizes.get(effect.table) ?? 0;
    return { ...effect, bytes, seconds: effect.work === 'catalog' ? 0 : bytes / bytesPerSecond[effect.work] };
  });
  return { name, step: step?.step ?? 'contract', effects };
}

const sumDiskNeed = (migrations: PlannedMigration[]): number =>
  migrations
    .flatMap(({ effects }) => effects)
    .reduce((sum, { bytes, work }) => sum + Math.ceil(bytes * diskShare[work]), 0);

function findDiskShortage(needed_bytes: number, free_bytes: number | null): UpgradeFinding[] {
  if (needed_bytes === 0) return [];
  if (free_bytes === null) return [{ code: 'disk_unknown', needed_bytes }];
  return free_bytes < needed_bytes ? [{ code: 'disk_short', needed_bytes, free_bytes }] : [];
}

const findLongBlocks = (migrations: PlannedMigration[]): UpgradeFinding[] =>
  migrations.flatMap(({ name, effects }) =>
    effects
      .filter(({ blocks, seconds }) => blocks !== 'nothing' && seconds > maxBlockedSeconds)
      .map(({ table, blocks, seconds }) => ({ code: 'blocks_long', migration: name, table, blocks, seconds })),
  );

/** Finds out why servers of the present schema could not be started again after the upgrade. */
function findLostRollback(
  newest: number,
  missing: Migration[],
  steps: Readonly<Record<string, MigrationStep>>,
): UpgradeFinding[] {
  if (newest === 0 || missing.length === 0) return [];
  if (newest < windowSchema) return [{ code: 'no_rollback', because: 'before_window', migrations: [] }];
  const breaking = missing.filter((each) => runsFrom(each, steps) > newest).map(({ name }) => name);
  return breaking.length > 0 ? [{ code: 'no_rollback', because: 'contract', migrations: breaking }] : [];
}

const refusals: UpgradeFinding['code'][] = ['schema_too_new', 'replicas_too_old'];

const toVerdict = (findings: UpgradeFinding[]): UpgradeReport['verdict'] => {
  if (findings.some(({ code }) => refusals.includes(code))) return 'refused';
  return findings.length > 0 ? 'attention' : 'ready';
};

const maxVersion = (migrations: { version: number }[]) => Math.max(0, ...migrations.map(({ version }) => version));

/** The client must be in a repeatable read transaction, so that all numbers are of one moment. */
export async function checkUpgrade(client: pg.ClientBase, options: CheckOptions): Promise<UpgradeReport> {
  const { folder, steps = migrationSteps, version = packageVersion(), free_bytes } = options;
  const known = await readMigrations(folder);
  const applied: AppliedMigration[] = await listAppliedMigrations(client);
  const newest = maxVersion(applied);
  const program = maxVersion(known);
  const unknown = applied.filter((each) => each.version > program);
  const missing = known.filter((each) => !applied.some((done) => done.version === each.version));
  const sizes = await readTableSizes(client);
  const migrations = missing.map((each) => planMigration(each, steps[each.name], sizes));
  const replicas = (await listRunningReplicas(client)).map((each) => ({ ...each, knows: toKnownSchema(each, newest) }));
  const agents = await countAgents(client, version);

  const needs = neededSchema(unknown);
  const neededByPending = Math.max(0, ...missing.map((each) => runsFrom(each, steps)));
  const runs_from = Math.max(neededByPending, neededSchema(applied.filter((each) => each.runs_from !== null)));
  const tooOld = replicas.filter(({ knows }) => knows < neededByPending);
  const oldAgents = agents.filter(({ supported }) => !supported).reduce((sum, { nodes }) => sum + nodes, 0);
  const disk = { needed_bytes: sumDiskNeed(migrations), free_bytes };
  const findings: UpgradeFinding[] = [
    ...(needs > program ? [{ code: 'schema_too_new', needs } as const] : []),
    ...(tooOld.length > 0
      ? [
          {
            code: 'replicas_too_old',
            needs: neededByPending,
            replica_ids: tooOld.map(({ replica_id }) => replica_id),
          } as const,
        ]
      : []),
    ...findLostRollback(newest, missing, steps),
    ...findLongBlocks(migrations),
    ...findDiskShortage(disk.needed_bytes, disk.free_bytes),
    ...(oldAgents > 0 ? [{ code: 'agents_too_old', nodes: oldAgents } as const] : []),
  ];
  return {
    version,
    schema: { database: newest, program },
    verdict: toVerdict(findings),
    migrations,
    rollback: {
      possible: !findings.some(({ code }) => code === 'no_rollback'),
      runs_from,
      releases: releases
        .filter(({ schema }) => schema >= Math.max(runs_from, windowSchema))
        .map((each) => each.version),
    },
    replicas,
    agents,
    disk,
    findings,
  };
}
