/** Tests the what-if analysis of recorded boots, and how a boot budget is set or learned. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { moment, systemClock } from '../../../src/base/clock.ts';
import type { TimedBoot } from '../../../src/lifecycle/boots/survival.ts';
import { whatIf } from '../../../src/lifecycle/boots/what-if.ts';
import { evenBoots, recordBoots } from '../../../src/store/testing/recorded-boots.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { openTables, type Tables } from '../support/tables.ts';

let server: TestServer;
let tables: Tables;
const now = () => moment(systemClock.nowMs());

beforeAll(async () => {
  server = await inProcessServer();
  tables = await openTables(server.database_url);
});
afterAll(async () => {
  await tables.close();
  await server.stop();
});

const declarePool = (name: string, budgets = {}) =>
  server.client.call('pool-put', { params: { pool: name }, body: { driver: 'external', budgets } });
const recordPoolBoots = (name: string, boots: readonly TimedBoot[]) =>
  recordBoots(tables, { pool: name, boots, until: now() });
const readBoots = (name: string) => server.client.call('pool-boots', { params: { pool: name } });
const askWhatIf = (name: string, budget_seconds: number) =>
  server.client.call('pool-what-if', { params: { pool: name }, body: { budget_seconds } });

/** The audit shows rows in commit order, so a row may have to wait for an earlier transaction. */
const waitForAudit = (name: string, seconds: number) =>
  until('the new budget in the audit', async () => {
    const { items } = await server.client.call('audit-list', {});
    return items.find(({ kind, data }) => kind === 'pool.budget_set' && data.pool === name && data.seconds === seconds);
  });

describe('the what-if analysis of a budget', () => {
  it('lists the boots that the budget would have failed, and compares it with the current budget', async () => {
    await declarePool('slow', { provision_seconds: 720, rescue_seconds: 0 });
    const ids = await recordPoolBoots('slow', [
      { seconds: 423, outcome: 'completed' },
      { seconds: 95, outcome: 'completed' },
      { seconds: 720, outcome: 'timed_out' },
    ]);
    expect(await askWhatIf('slow', 400)).toMatchObject({
      pool: 'slow',
      phase: 'provision',
      boots: 3,
      false_kills: [{ node_id: ids[0], seconds: 423, over_seconds: 23, rescued: false }],
      false_kill_count: 1,
      stuck: [{ node_id: ids[2], sooner_seconds: 320 }],
      stuck_found_sooner_seconds: 320,
      predicted_false_kill_share: expect.closeTo(0.5, 9),
      current: { budget_seconds: 720, budget_source: 'pool', false_kill_count: 0 },
    });
    expect((await askWhatIf('slow', 430)).false_kills).toEqual([]);
  });

  it('assumes a rescue window of a week in an external pool that sets none', async () => {
    await declarePool('rescued');
    await server.client.call('pool-budget', {
      params: { pool: 'rescued' },
      body: { budget_seconds: 800, reason: 'to begin with' },
    });
    await recordPoolBoots('rescued', [{ seconds: 500, outcome: 'completed' }]);
    const reply = await askWhatIf('rescued', 400);
    expect(reply.rescue_seconds, 'the rescue window of an external pool').toBe(7 * 86_400);
    expect(reply.false_kills).toMatchObject([{ rescued: true }]);
  });

  it('has the same result in SQL as in the lifecycle code', async () => {
    await declarePool('any', { rescue_seconds: 60 });
    const anyBoot: fc.Arbitrary<TimedBoot> = fc.record({
      seconds: fc.integer({ min: 1, max: 1000 }),
      outcome: fc.constantFrom('completed', 'late', 'timed_out', 'cancelled'),
    });
    const sampledBoots = fc.sample(anyBoot, { numRuns: 400, seed: 7 });
    await recordPoolBoots('any', sampledBoots);
    for (const budget_seconds of [1, 100, 500, 999, 1000]) {
      const expected = whatIf(sampledBoots, { budget_seconds, rescue_seconds: 60 });
      const { false_kills, stuck, ...counts } = await askWhatIf('any', budget_seconds);
      expect(counts).toMatchObject({
        boots: expected.boots,
        arrived_count: expected.arrived,
        false_kill_count: expected.false_kills.length,
        rescued_count: expected.rescued,
        stuck_count: expected.stuck.length,
        undecided_count: expected.undecided,
      });
      expect(counts.stuck_found_sooner_seconds).toBeCloseTo(expected.stuck_found_sooner_seconds ?? 0, 9);
      expect(false_kills.map((kill) => kill.over_seconds)).toEqual(
        expected.false_kills.map((kill) => kill.over_seconds),
      );
      expect(stuck.map((each) => each.sooner_seconds)).toEqual(expected.stuck.map((each) => each.sooner_seconds));
    }
  });

  it('considers only boots after the moment `since`', async () => {
    const since = new Date(systemClock.nowMs() + 60_000).toISOString();
    const reply = await server.client.call('pool-what-if', {
      params: { pool: 'any' },
      body: { budget_seconds: 1, since },
    });
    expect(reply).toMatchObject({ boots: 0, false_kills: [], oldest_at: null, stuck_found_sooner_seconds: null });
  });

  it('uses, for the start phase, the rescue window that pool-boots shows', async () => {
    await recordPoolBoots('hosted', evenBoots(60, 400));
    await server.client.call('pool-put', {
      params: { pool: 'hosted' },
      body: { driver: 'local', budgets: { policy: 'learned', provision_seconds: 720 } },
    });
    const [, start] = await until('the learned budget', async () => {
      const { phases } = await readBoots('hosted');
      return phases[0]?.budget_source === 'learned' ? phases : undefined;
    });
    const reply = await server.client.call('pool-what-if', {
      params: { pool: 'hosted' },
      body: { phase: 'start', budget_seconds: 60 },
    });
    expect(reply.rescue_seconds).toBe(300);
    expect(reply.rescue_seconds).toBe(start?.rescue_seconds);
  });
});

describe('a budget', () => {
  it('is set with a reason, which the audit shows', async () => {
    await declarePool('set', { provision_seconds: 600 });
    const reply = await server.client.call('pool-budget', {
      params: { pool: 'set' },
      body: { budget_seconds: 900, reason: 'the mirror is slow' },
    });
    expect(reply).toMatchObject({ generation: 2, budgets: { provision_seconds: 900 } });
    expect((await waitForAudit('set', 900)).data).toMatchObject({
      pool: 'set',
      from_seconds: 600,
      seconds: 900,
      reason: 'the mirror is slow',
    });
    const { items } = await server.client.call('audit-list', { query: { target_id: 'set' } });
    expect(items.map(({ kind }) => kind)).toEqual(expect.arrayContaining(['pool.declared', 'pool.budget_set']));
  });

  it('of the start phase cannot get a policy, because only the provision budget can be learned', async () => {
    await declarePool('policy-of-start');
    await expect(
      server.client.call('pool-budget', {
        params: { pool: 'policy-of-start' },
        body: { phase: 'start', budget_seconds: 9, policy: 'learned', reason: 'x' },
      }),
    ).rejects.toMatchObject({ problem: { code: 'invalid_request' } });
  });

  it('is refused with a floor above its ceiling', async () => {
    await expect(declarePool('crossed', { floor_seconds: 100, ceiling_seconds: 99 })).rejects.toMatchObject({
      problem: { code: 'invalid_request', errors: [{ path: '/body/budgets/floor_seconds' }] },
    });
    expect(await declarePool('crossed', { floor_seconds: 99, ceiling_seconds: 99 })).toMatchObject({ generation: 1 });
  });

  it('is learned if the pool has the policy learned, and the next machine gets the learned budget', async () => {
    await recordPoolBoots('taught', evenBoots(60, 400));
    await declarePool('taught', { policy: 'learned', provision_seconds: 720 });
    const phase = await until('the learned budget', async () => {
      const [provision] = (await readBoots('taught')).phases;
      return provision?.budget_source === 'learned' ? provision : undefined;
    });
    expect(phase).toMatchObject({
      budget_seconds: 600,
      policy: 'learned',
      learning: { aim_seconds: 600, stratum: 'make-in-zone', completions: 60, frozen: null },
      since_change: { boots: 0, late: 0, killed: 0 },
      predicted_false_kill_share: { share: 0 },
      p50_seconds: 200,
    });
    expect(phase.survival).toHaveLength(61);
    const { node } = await server.client.call('node-create', { body: { pool: 'taught' } });
    expect(node).toMatchObject({ budget_seconds: 600, budget_source: 'learned' });
    expect((await readBoots('taught')).phases[0]).toMatchObject({ running: 1 });
  });

  it('replaces the learned budget if an operator sets it', async () => {
    const body = { budget_seconds: 720, reason: 'the mirror is slow today' };
    await server.client.call('pool-budget', { params: { pool: 'taught' }, body });
    const auditRow = await waitForAudit('taught', 720);
    expect(auditRow.data).toMatchObject({
      ...{ pool: 'taught', phase: 'provision', from_source: 'learned', from_seconds: 600, seconds: 720 },
      ...{ policy: 'learned', reason: body.reason },
    });
    const fixed = { ...body, budget_seconds: 900, policy: 'fixed' as const };
    await server.client.call('pool-budget', { params: { pool: 'taught' }, body: fixed });
    expect((await waitForAudit('taught', 900)).data).toMatchObject({ policy: 'fixed', reason: body.reason });
  });
});

it('ignores boots of machines that joined by themselves, because the start of their boot is unknown', async () => {
  await declarePool('joined');
  const { token = '' } = await server.client.call('join-token-create', { params: { pool: 'joined' }, body: {} });
  await server.as('').call('agent-register', { body: { join_token: token, name: 'mine', version: '1.0.0' } });
  const [provision] = (await readBoots('joined')).phases;
  expect(provision).toMatchObject({ samples: [], p50_seconds: null, running: 0 });
});
