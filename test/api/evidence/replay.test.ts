/**
 * Replays over HTTP a history that real rules and transitions wrote, and compares the differences
 * node by node.
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
import { readHistory, toReplayPolicy } from '../../../src/store/replay/replay-history.ts';
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
/** The machines by their outcome in the history. */
const machinesByOutcome: Record<'stuck' | 'late' | 'arrived' | 'silent' | 'lost' | 'crowd', NodeId[]> = {
  ...{ stuck: [], late: [], arrived: [], silent: [], lost: [], crowd: [] },
};

/** The boots begin an hour before the start of the fixture, with a budget of one minute. */
const atBootSecond = (seconds: number) => fixture.at(seconds - 3600);
const build = { budgets: { provision_seconds: 60, rescue_seconds: 600, offline_seconds: 600 } };

const readNode = async (id: NodeId): Promise<NodeRow> => {
  const [row] = await fixture.readNodes([id]);
  if (!row) throw new Error(`there is no node ${id}`);
  return row;
};

const move = (moves: NodeMove[], at: Date) =>
  fixture.db.transaction((tx) => transition(tx, moves, at, fixture.environment));

async function registerNodes(ids: NodeId[], at: Date, by: 'registration' | 'late-registration'): Promise<void> {
  await move(
    ids.map((node_id) => ({ node_id, to: 'starting', by, reason: 'its agent registered', set: { registered_at: at } })),
    at,
  );
}

async function reportReady(id: NodeId, at: Date): Promise<void> {
  const { node_id, node_instance_id } = await readNode(id);
  if (!node_instance_id) throw new Error(`node ${id} has no instance`);
  const reporter = { node_id, node_instance_id, stale_seconds: staleSeconds };
  await recordReport(fixture.db, reporter, { status: 'ready' }, at, fixture.environment);
}

/** In the pool build, two machines register in time, two late and two never. */
async function recordBoots(): Promise<void> {
  const booting = { pool: 'build', status: 'provisioning' as const, deadline_at: atBootSecond(60) };
  machinesByOutcome.arrived = await fixture.addNodes({ ...booting, count: 2 });
  machinesByOutcome.late = await fixture.addNodes({ ...booting, count: 2 });
  machinesByOutcome.stuck = await fixture.addNodes({ ...booting, count: 2 });
  await registerNodes(machinesByOutcome.arrived, atBootSecond(50), 'registration');
  await provisionDeadline(fixture.services).run(atBootSecond(61));
  await registerNodes(machinesByOutcome.late, atBootSecond(100), 'late-registration');
}

/** In the pool build, two machines go silent: one returns, one never does. */
async function recordSilences(): Promise<void> {
  const [silent, lost] = await fixture.addNodes({ pool: 'build', count: 2 });
  await fixture.addNodes({ pool: 'build', count: 4, last_seen_at: fixture.at(2000) });
  machinesByOutcome.silent = silent ? [silent] : [];
  machinesByOutcome.lost = lost ? [lost] : [];
  await fixture.markStored(fixture.at(31));
  await liveness(fixture.services).run(fixture.at(31));
  if (silent) await reportReady(silent, fixture.at(80));
  await fixture.beat(machinesByOutcome.silent, fixture.at(2000));
  await offlineDeadline(fixture.services).run(fixture.at(632));
}

/** In the pool crowded, six of twenty machines go silent at once, and their verdicts are held. */
async function recordMassFailure(): Promise<void> {
  machinesByOutcome.crowd = await fixture.addNodes({ pool: 'crowded', count: 6 });
  await fixture.addNodes({ pool: 'crowded', count: 14, last_seen_at: fixture.at(2000) });
  await fixture.markStored(fixture.at(700));
  await liveness(fixture.services).run(fixture.at(700));
}

beforeAll(async () => {
  const database = await testDatabase();
  fixture = ruleFixture(database);
  await fixture.declarePool('build', build);
  await fixture.declarePool('crowded', {});
  await recordBoots();
  await recordSilences();
  await recordMassFailure();
  server = await inProcessServer({ database_url: database.url, composition: { sweeps: () => [] } });
});
afterAll(async () => {
  await server.stop();
  await fixture.close();
});

const since = () => secondsLater(fixture.start, -86_400).toISOString();

async function replay(policy: ProposedPool[]): Promise<ReplayedPool[]> {
  return (await server.client.call('policy-replay', { body: { policy, since: since() } })).pools;
}
const nodesByDifference = ([pool]: ReplayedPool[]) =>
  Object.fromEntries(
    [...Map.groupBy(pool?.differences ?? [], ({ kind }) => kind)].map(([kind, all]) => [
      kind,
      all.map(({ node_id }) => node_id).sort(),
    ]),
  );
const unknownKinds = ([pool]: ReplayedPool[]) => pool?.untold.map(({ kind }) => kind);

describe('a replay', () => {
  it('of the current policy finds no difference', async () => {
    const [pool, ...others] = await replay([{ name: 'build', driver: 'external', ...build }]);
    expect(others).toEqual([]);
    expect(pool).toMatchObject({ pool: 'build', otherwise: 0, differences: [], untold: [] });
    // The ten boots include starts that have not ended. Ten boots and two absences are the twelve
    // decisions.
    expect(pool).toMatchObject({ boots: 10, absences: 2, decisions: 12 });
    expect(await replay([{ name: 'crowded', driver: 'external' }])).toMatchObject([{ otherwise: 0, decisions: 6 }]);
  });

  it('of another budget names each boot that it would have spared, failed or rescued', async () => {
    const larger = await replay([{ name: 'build', budgets: { provision_seconds: 120 } }]);
    expect(nodesByDifference(larger)).toEqual({
      boot_spared: machinesByOutcome.late,
      stuck_later: machinesByOutcome.stuck,
    });
    expect(larger[0]?.differences.find(({ kind }) => kind === 'boot_spared')).toMatchObject({
      pool: 'build',
      rule: 'provision-deadline',
      was: { verdict: 'failed', at: atBootSecond(61).toISOString() },
      would_be: { verdict: 'starting', at: atBootSecond(100).toISOString() },
      sure: true,
    });
    const smaller = await replay([{ name: 'build', budgets: { provision_seconds: 40, rescue_seconds: 30 } }]);
    expect(nodesByDifference(smaller)).toEqual({
      boot_given_up: machinesByOutcome.arrived,
      boot_lost: machinesByOutcome.late,
      stuck_sooner: machinesByOutcome.stuck,
    });
  });

  it('of another stale time or offline budget names each machine with a different verdict', async () => {
    const longerStaleTime = await replay([{ name: 'build', heartbeat: { stale_after_seconds: 90 } }]);
    expect(nodesByDifference(longerStaleTime)).toEqual({
      silence_spared: machinesByOutcome.silent,
      offline_later: machinesByOutcome.lost,
    });
    const shorterBudget = await replay([{ name: 'build', budgets: { offline_seconds: 30 } }]);
    expect(nodesByDifference(shorterBudget)).toEqual({
      absent_given_up: machinesByOutcome.silent,
      absent_sooner: machinesByOutcome.lost,
    });
    const sharp = await replay([{ name: 'build', heartbeat: { interval_seconds: 5, stale_after_seconds: 15 } }]);
    expect(unknownKinds(sharp)).toContain('short_silences');
  });

  it('of another brake names each verdict that would be held or not be held', async () => {
    const loose = await replay([{ name: 'crowded', brake: { fraction: 0.5 } }]);
    expect(nodesByDifference(loose)).toEqual({ not_held: [...machinesByOutcome.crowd].sort() });
    expect(loose[0]?.differences[0]).toMatchObject({
      was: { verdict: 'held', reason: expect.stringContaining('6 of 20 machines') },
      would_be: { verdict: 'offline' },
    });
    expect(nodesByDifference(await replay([{ name: 'build', brake: { fraction: 0.1, min_nodes: 2 } }]))).toMatchObject({
      held: [...machinesByOutcome.silent, ...machinesByOutcome.lost].sort(),
    });
  });

  it('without a pool name covers every pool; a whole document resets the fields it omits', async () => {
    const all = await replay([{ budgets: { provision_seconds: 120 } }]);
    expect(all.map(({ pool, otherwise }) => [pool, otherwise])).toEqual([
      ['build', 4],
      ['crowded', 0],
      ['local', 0],
    ]);
    const wholeDocument = await replay([{ name: 'build', driver: 'external' }]);
    expect(nodesByDifference(wholeDocument)).toMatchObject({
      boot_spared: machinesByOutcome.late,
      stuck_later: machinesByOutcome.stuck,
    });
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
    expect(stdout).toContain('– 2 boots given up although they arrived');
  });

  it('judges each machine by the pool document that applied to it, also after the pool changed', async () => {
    await fixture.db.transaction((tx) =>
      declarePool(tx, 'build', { driver: 'external', budgets: {} }, fixture.at(800)),
    );
    expect(await replay([{ name: 'build', driver: 'external', ...build }])).toMatchObject([{ otherwise: 0 }]);
    expect(nodesByDifference(await replay([{ name: 'build', budgets: {} }]))).toMatchObject({
      boot_spared: machinesByOutcome.late,
    });
  });

  it('reports when it read only a part of the records', async () => {
    const range = { pool: 'build', since: atBootSecond(0), until: fixture.at(1000), max_rows: 3 };
    const history = await readHistory(fixture, range);
    expect(history).toMatchObject({
      boots: { length: 3 },
      changes: { length: 3 },
      truncated: { boots: true, changes: true },
    });
    expect(toReplayPolicy({ driver: 'external' }, fixture.environment)).toMatchObject({ mode: 'enforce', budgets: {} });
  });
});

describe('a replay request', () => {
  const requestReplay = (policy: object[]) =>
    callRoute(server.url, 'policy-replay', { body: { policy } }, { bearer: server.token });

  it('with an invalid policy is refused with a problem', async () => {
    expectProblem(await requestReplay([{ name: 'nowhere', budgets: {} }]), 'pool_not_found');
    expectProblem(await requestReplay([{ name: 'build' }, { name: 'build' }]), 'invalid_request');
    expectProblem(await requestReplay([{ budgets: {} }, { brake: {} }]), 'invalid_request');
    expectProblem(await requestReplay([{ name: 'build', runtime_class: 'none' }]), 'invalid_request');
    expectProblem(await requestReplay([{ name: 'build', budgets: { provision_second: 5 } }]), 'invalid_request');
    expectProblem(await requestReplay([{ name: 'build', driver: 'local' }]), 'driver_fixed');
  });

  it('writes no evidence, valid or refused', async () => {
    const readEvidence = () =>
      fixture.db.query<{ fact: string }>(
        `select concat_ws(' ', kind, data->>'operation') as fact from evidence order by seq`,
      );
    const countBefore = (await readEvidence()).length;
    await replay([{ name: 'build' }]);
    for (const refused of [{ name: 'nowhere' }, { name: 'build', driver: 'local' }]) await requestReplay([refused]);
    // A refusal is recorded after its answer, in order. Once this last refusal is recorded, earlier
    // ones would be too.
    await callRoute(server.url, 'pool-delete', { params: { pool: 'nowhere' } }, { bearer: server.token });
    const newFacts = await until('a refusal to be recorded', async () => {
      const facts = (await readEvidence()).slice(countBefore).map(({ fact }) => fact);
      return facts.includes('action.refused pool-delete') ? facts : undefined;
    });
    expect(newFacts).toEqual(['action.refused pool-delete']);
  });
});
