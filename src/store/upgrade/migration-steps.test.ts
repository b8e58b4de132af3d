/** The table of migration steps matches the effects of the migrations, measured on PostgreSQL. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { emptyDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { packageRoot, packageVersion } from '../../base/files/package-root.ts';
import { readMigrations } from '../migrate.ts';
import { type Database, openDatabase } from '../pg/database.ts';
import { measureMigration } from '../testing/migration-effects.ts';
import { dumpSchema } from '../testing/schema-dump.ts';
import { findBroken, findFaults } from '../testing/step-faults.ts';
import { type Effect, knownSchema, type MigrationStep, migrationSteps, windowSchema } from './migration-steps.ts';
import { isBeforeWindow, type Release, releases } from './releases.ts';

const migrations = await readMigrations();
const names = migrations.map(({ name }) => name);
const keyOf = ({ table, blocks }: Effect) => `${table} ${blocks}`;

test('each migration has an entry that keeps the rules of the window', () => {
  expect(findFaults(names, migrationSteps, releases)).toEqual([]);
  expect(knownSchema).toBe(migrations.at(-1)?.version);
  expect(names.find((name) => name.endsWith('-upgrade-window.sql'))).toMatch(new RegExp(`^0*${windowSchema}-`));
});

describe('the rules of the window', () => {
  const step: MigrationStep = { step: 'contract', effects: [], runs_from: 63, breaks: ['nodes.zone'] };
  const withLosses = (...can_lose: string[]): Release[] => [
    { version: '0.1.0', schema: 57, can_lose: [] },
    { version: '0.2.0', schema: 63, can_lose },
    { version: '0.3.0', schema: 64, can_lose },
  ];
  const name = '0070-drop-zone.sql';

  test('a contract step may break only what no release in the window uses', () => {
    expect(findFaults([name], { [name]: step }, withLosses('nodes.zone'))).toEqual([]);
    expect(findFaults([name], { [name]: step }, withLosses())).toEqual([
      `${name} breaks nodes.zone, which 0.2.0 uses`,
      `${name} breaks nodes.zone, which 0.3.0 uses`,
    ]);
  });

  test('a contract step must let every release in the window run', () => {
    expect(findFaults([name], { [name]: { ...step, runs_from: 64 } }, withLosses('nodes.zone'))).toEqual([
      `${name} runs from 64, and 0.2.0 knows 63`,
    ]);
  });

  test('a migration needs an entry, and an entry its migration', () => {
    expect(findFaults([name], {}, withLosses())).toEqual([`${name} has no entry`]);
    expect(findFaults([], { [name]: { step: 'expand', effects: [] } }, withLosses())).toEqual([
      `${name} does not exist`,
    ]);
  });

  test('only a contract step breaks something, and it must have `runs_from`', () => {
    const bareStep: MigrationStep = { step: 'contract', effects: [] };
    expect(findFaults([name], { [name]: bareStep }, withLosses())).toEqual([
      `${name} is a contract step without runs_from`,
    ]);
    expect(findFaults([name], { [name]: { ...step, step: 'expand' } }, withLosses())).toHaveLength(1);
  });

  test('agents are too old after more than two MINORs', () => {
    const minors = ['0.6.9', '0.5.0', '0.4.0', '0.3.9'].map((version) => isBeforeWindow(version, '0.6.0'));
    expect(minors).toEqual([false, false, false, true]);
    expect([isBeforeWindow('1.9.0', '2.0.0'), isBeforeWindow('2.0.0', '1.0.0')]).toEqual([true, false]);
  });
});

test('each released version of the changelog has its schema', async () => {
  const changelog = await readFile(join(packageRoot, 'CHANGELOG.md'), 'utf8');
  const listed = [...changelog.matchAll(/^## (\d+\.\d+\.\d+)/gm)].map(([, version]) => version);
  expect(releases.map(({ version }) => version)).toEqual(listed.reverse());
  expect(listed).toContain(packageVersion());
});

describe('on PostgreSQL', () => {
  interface Measured {
    effects: Effect[];
    breaks: string[];
  }
  const measured: Record<string, Measured> = {};
  let database: TestDatabase;
  let db: Database;

  beforeAll(async () => {
    database = await emptyDatabase();
    db = openDatabase({ url: database.url });
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query(
      'create table schema_migrations (version integer primary key, name text not null, applied_at timestamptz not null default now())',
    );
    let before = '';
    for (const { name, sql } of migrations) {
      const effects = await measureMigration(client, sql);
      const after = await dumpSchema(db);
      measured[name] = { effects, breaks: findBroken(before, after) };
      before = after;
    }
    await client.end();
  });
  afterAll(async () => {
    await db.close();
    await database.drop();
  });

  test.for(names)('%s locks and breaks exactly what its entry states', (name) => {
    const { effects = [], breaks = [] } = migrationSteps[name] ?? {};
    // A scan leaves no trace on an empty table, so it is measured as catalog.
    const comparable = effects.map((each) => ({ ...each, work: each.work === 'scan' ? 'catalog' : each.work }));
    const inOrder = comparable.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
    expect({ effects: inOrder, breaks }).toEqual(measured[name]);
  });

  test('finds what servers of the earlier schema miss', () => {
    const before = 'table a\n  id text not null\n  zone text\n  index a_zone ON a\n\nfunction f(x text)';
    const after =
      'table a\n  id text not null\n  size text not null\n  kind text not null default 1\n\ntable b\n  id text not null';
    expect(findBroken(before, after)).toEqual(['a.size required', 'a.zone', 'f()']);
    expect(findBroken(before, 'function f(x text, y text)')).toEqual(['a']);
  });
});
