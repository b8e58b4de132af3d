/**
 * Replays a history that real rules and transitions wrote, over HTTP, and compares node by node.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { secondsLater } from '../../../src/base/clock.ts';
import type { NodeId } from '../../../src/base/ids.ts';
import { runCli } from '../../../src/cli/testing/run-cli.ts';
import type { ProposedPool } from '../../../src/contract/pool.ts';
import type { ReplayedPool } from '../../../src/contract/supervision/replay.ts';
import { recordReport } from '../../../src/store/agents/reports.ts';
import { readHistory, replayPolicyOf } from '../../../src/store/replay/replay-history.ts';
import type { NodeRow } from '../../../src/store/rows/nodes.ts';
import { declarePool } from '../../../src/store/rows/pools.ts';
import type { NodeMove } from '../../../src/store/transitions/node-move.ts';
import { transition } from '../../../src/store/transitions/node-transition.ts';
import { liveness } from '../../../src/sweeps/rules/liveness.ts';
import { offlineDeadline } from '../../../src/sweeps/rules/offline-deadline.ts';
import { provisionDeadline } from '../../../src/sweeps/rules/provision-deadline.ts';
import { type RuleFixture, ruleFixture, staleSeconds } from '../../../src/sweeps/testing/rule-fixture.ts';
import { testDatabase } from '../../support/database.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { callRoute, expectProblem } from '../support/calls.ts';

let fixture: RuleFixture;
let server: TestServer;
/** Machines by their outcome. */
const became: Record<'stuck' | 'late' | 'arrived' | 'silent' | 'lost' | 'crowd', NodeId[]> = {
  ...{ stuck: [], late: [], arrived: [], silent: [], lost: [], crowd: [] },
};

/** A placed machine has its status since an hour before the start, with a minute to boot. */
const booted = (seconds: number) => fixture.at(seconds - 3600);
const build = { budgets: { provision_seconds: 60, rescue_seconds: 600, offline_seconds: 600 } };

const instanceOf = async (id: NodeId): Promise<NodeRow> => {
  const [row] = await fixture.readNodes([id]);
  if (!row) throw new Error(`there is no ${id}`);
  return row;
};

const move = (moves: NodeMove[], at: Date) =>
  fixture.db.transaction((tx) => transition(tx, moves, at, fixture.environment));

async function arrives(ids: NodeId[], at: Date, by: 'registration' | 'late-registration'): Promise<void> {
  await move(
    ids.map((node_id) => ({ node_id, to: 'starting', by, reason: 'its agent registered', set: { registered_at: at } })),
    at,
  );
}

async function beatsAgain(id: NodeId, at: Date): Promise<void> {
  const { node_id, node_instance_id } = await instanceOf(id);
  if (!node_instance_id) throw new Error('it has no instance');
  const claiming = { node_id, node_instance_id, stale_seconds: staleSeconds };
  await recordReport(fixture.db, claiming, { status: 'ready' }, at, fixture.environment);
}

/** Boots of the pool build: two arrive in time, two late, two never. */
async function boots(): Promise<void> {
  const booting = { pool: 'build', status: 'provisioning' as const, deadline_at: booted(60) };
  became.arrived = await fixture.addNodes({ ...booting, count: 2 });
  became.late = await fixture.addNodes({ ...booting, count: 2 });
  became.stuck = await fixture.addNodes({ ...booting, count: 2 });
  await arrives(became.arrived, booted(50), 'registration');
  await provisionDeadline(fixture.services).run(booted(61));
  await arrives(became.late, booted(100), 'late-registration');
}

/** Machines of the pool build that fall silent: one returns, one never does. */
async function silences(): Promise<void> {
  const [silent, lost] = await fixture.addNodes({ pool: 'build', count: 2 });
  await fixture.addNodes({ pool: 'build', count: 4, last_seen_at: fixture.at(2000) });
  became.silent = silent ? [silent] : [];
  became.lost = lost ? [lost] : [];
  await fixture.markStored(fixture.at(31));
  await liveness(fixture.services).run(fixture.at(31));
  if (silent) await beatsAgain(silent, fixture.at(80));
  await fixture.beat(became.silent, fixture.at(2000));
  await offlineDeadline(fixture.services).run(fixture.at(632));
}

/** Six of twenty in the pool crowded fall silent at once, and their verdicts are held. */
async function crowd(): Promise<void> {
  became.crowd = await fixture.addNodes({ pool: 'crowded', count: 6 });
  await fixture.addNodes({ pool: 'crowded', count: 14, last_seen_at: fixture.at(2000) });
  await fixture.markStored(fixture.at(700));
  await liveness(fixture.services).run(fixture.at(700));
}

beforeAll(async () => {
  const database = await testDatabase();
  fixture = ruleFixture(database);
  await fixture.declarePool('build', build);
  await fixture.declarePool('crowded', {});
  await boots();
  await silences();
  await crowd();
  server = await inProcessServer({ database_url: database.url, composition: { sweeps: () => [] } });
});
afterAll(async () => {
  await server.stop();
  await fixture.close();
});

const since = () => secondsLater(fixture.start, -86_400).toISOString();

async function replayed(policy: ProposedPool[]): Promise<ReplayedPool[]> {
  return (await server.client.call('policy-replay', { body: { policy, since: since() } })).pools;
}
const foundIn = ([pool]: ReplayedPool[]) =>
  Object.fromEntries(
    [...Map.groupBy(pool?.differences ?? [], ({ kind }) => kind)].map(([kind, all]) => [
      kind,
      all.map(({ node_id }) => node_id).sort(),
    ]),
  );
const untold = ([pool]: ReplayedPool[]) => pool?.untold.map(({ kind }) => kind);

describe('a replay', () => {
  it('of the current policy finds nothing', async () => {
    const [pool, ...others] = await replayed([{ name: 'build', driver: 'external', ...build }]);
    expect(others).toEqual([]);
    expect(pool).toMatchObject({ pool: 'build', otherwise: 0, differences: [], untold: [] });
    // The boots, the starts that still run, and the absences.
    expect(pool).toMatchObject({ boots: 10, absences: 2, decisions: 12 });
    expect(await replayed([{ name: 'crowded', driver: 'external' }])).toMatchObject([{ otherwise: 0, decisions: 6 }]);
  });

  it('of another budget names each boot that it would have spared, failed or rescued', async () => {
    const larger = await replayed([{ name: 'build', budgets: { provision_seconds: 120 } }]);
    expect(foundIn(larger)).toEqual({ boot_spared: became.late, stuck_later: became.stuck });
    expect(larger[0]?.differences.find(({ kind }) => kind === 'boot_spared')).toMatchObject({
      pool: 'build',
      rule: 'provision-deadline',
      was: { verdict: 'failed', at: booted(61).toISOString(), reason: expect.stringContaining('timed out') },
      would_be: { verdict: 'starting', at: booted(100).toISOString(), reason: 'it registered after 100 s' },
      sure: true,
    });
    const smaller = await replayed([{ name: 'build', budgets: { provision_seconds: 40, rescue_seconds: 30 } }]);
    expect(foundIn(smaller)).toEqual({
      boot_given_up: became.arrived,
      boot_lost: became.late,
      stuck_sooner: became.stuck,
    });
  });

  it('of another stale time or offline time names each machine', async () => {
    const patient = await replayed([{ name: 'build', heartbeat: { stale_after_seconds: 90 } }]);
    expect(foundIn(patient)).toEqual({ silence_spared: became.silent, offline_later: became.lost });
    const hasty = await replayed([{ name: 'build', budgets: { offline_seconds: 30 } }]);
    expect(foundIn(hasty)).toEqual({ absent_given_up: became.silent, absent_sooner: became.lost });
    const sharp = await replayed([{ name: 'build', heartbeat: { interval_seconds: 5, stale_after_seconds: 15 } }]);
    expect(untold(sharp)).toContain('short_silences');
  });

  it('of another brake names each verdict that was held', async () => {
    const loose = await replayed([{ name: 'crowded', brake: { fraction: 0.5 } }]);
    expect(foundIn(loose)).toEqual({ not_held: [...became.crowd].sort() });
    expect(loose[0]?.differences[0]).toMatchObject({
      was: { verdict: 'held', reason: expect.stringContaining('6 of 20 machines') },
      would_be: { verdict: 'offline' },
    });
    expect(foundIn(await replayed([{ name: 'build', brake: { fraction: 0.1, min_nodes: 2 } }]))).toMatchObject({
      held: [...became.silent, ...became.lost].sort(),
    });
  });

  it('without a name is for every pool; a whole document resets what it omits', async () => {
    const all = await replayed([{ budgets: { provision_seconds: 120 } }]);
    expect(all.map(({ pool, otherwise }) => [pool, otherwise])).toEqual([
      ['build', 4],
      ['crowded', 0],
      ['local', 0],
    ]);
    const whole = await replayed([{ name: 'build', driver: 'external' }]);
    expect(foundIn(whole)).toMatchObject({ boot_spared: became.late, stuck_later: became.stuck });
  });

  it('is rendered by the CLI', async () => {
    const path = join(server.data_dir, 'policy.yaml');
    await writeFile(path, 'name: build\nbudgets: {provision_seconds: 40}\nheartbeat: {stale_after_seconds: 90}\n');
    const { code, stdout } = await runCli(['replay', '--policy', path, '--since', since()], {
      server: server.url,
      env: { SLIPWAY_TOKEN: server.token },
    });
    expect(code).toBe(0);
    expect(stdout).toContain('✖ build: 8 of 12 decisions would differ');
    expect(stdout).toContain('– 2 boots given up though they arrived');
  });

  it('judges each machine by its pool generation', async () => {
    await fixture.db.transaction((tx) =>
      declarePool(tx, 'build', { driver: 'external', budgets: {} }, fixture.at(800)),
    );
    expect(await replayed([{ name: 'build', driver: 'external', ...build }])).toMatchObject([{ otherwise: 0 }]);
    expect(foundIn(await replayed([{ name: 'build', budgets: {} }]))).toMatchObject({ boot_spared: became.late });
  });

  it('reports when it read only a part of the records', async () => {
    const range = { pool: 'build', since: booted(0), until: fixture.at(1000), max_rows: 3 };
    const history = await readHistory(fixture, range);
    expect(history).toMatchObject({
      boots: { length: 3 },
      changes: { length: 3 },
      truncated: { boots: true, changes: true },
    });
    expect(replayPolicyOf({ driver: 'external' }, fixture.environment)).toMatchObject({ mode: 'enforce', budgets: {} });
  });
});

describe('an invalid replay', () => {
  const ask = (policy: object[]) =>
    callRoute(server.url, 'policy-replay', { body: { policy } }, { bearer: server.token });

  it('is refused with a problem', async () => {
    expectProblem(await ask([{ name: 'nowhere', budgets: {} }]), 'pool_not_found');
    expectProblem(await ask([{ name: 'build' }, { name: 'build' }]), 'invalid_request');
    expectProblem(await ask([{ budgets: {} }, { brake: {} }]), 'invalid_request');
    expectProblem(await ask([{ name: 'build', runtime_class: 'none' }]), 'invalid_request');
    expectProblem(await ask([{ name: 'build', budgets: { provision_second: 5 } }]), 'invalid_request');
    expectProblem(await ask([{ name: 'build', driver: 'local' }]), 'driver_fixed');
  });

  it('writes nothing', async () => {
    const written = () =>
      fixture.db.query<{ fact: string }>(
        `select concat_ws(' ', kind, data->>'operation') as fact from evidence order by seq`,
      );
    const before = (await written()).length;
    await replayed([{ name: 'build' }]);
    for (const refused of [{ name: 'nowhere' }, { name: 'build', driver: 'local' }]) await ask([refused]);
    // A refusal is recorded after its answer. Once the last one is recorded, so are those before
    // it.
    await callRoute(server.url, 'pool-delete', { params: { pool: 'nowhere' } }, { bearer: server.token });
    const since = await until('a refusal to be recorded', async () => {
      const kinds = (await written()).slice(before).map(({ fact }) => fact);
      return kinds.includes('action.refused pool-delete') ? kinds : undefined;
    });
    expect(since).toEqual(['action.refused pool-delete']);
  });
});
