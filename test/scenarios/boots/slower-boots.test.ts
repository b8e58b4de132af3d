/**
 * The image pull has been twice as slow since yesterday. A finding names the stage before the
 * slower boots exceed their budget.
 */
import { expect } from 'vitest';
import { now, secondsLater, systemClock } from '../../../src/base/clock.ts';
import type { Finding } from '../../../src/contract/supervision/finding.ts';
import { openDatabase } from '../../../src/store/pg/database.ts';
import { recordStagedBoots } from '../../../src/store/testing/staged-boots.ts';
import { type ScenarioContext, scenario, withoutSweep } from '../support/scenario.ts';

const pass_seconds = 0.5;
const hour = 3600;

const readFindings = async (context: ScenarioContext, status: Finding['status']): Promise<Finding[]> =>
  (await context.client.call('drift-list', { query: { kind: 'boot-shift', status } })).items;
const waitForFinding = (context: ScenarioContext, status: Finding['status']): Promise<Finding> =>
  context.waitFor(`a finding to be ${status}`, async () => (await readFindings(context, status))[0]);

scenario({
  name: 'an image pull that is twice as slow since yesterday',
  settings: {
    environment: (built) => ({ ...built, boot_shift: { ...built.boot_shift, every_seconds: pass_seconds } }),
  },
  async story(context) {
    await context.client.call('pool-put', {
      params: { pool: 'gpu' },
      body: { driver: 'external', budgets: { provision_seconds: 720 } },
    });
    const db = openDatabase({ url: context.server.database_url });
    const yesterday = secondsLater(now(systemClock), -24 * hour);
    const stages = { 'image-pull': 107, 'set-up': 270 };
    const normalBoots = { from: secondsLater(yesterday, -100 * hour), every_seconds: hour, stages };
    await recordStagedBoots(db, { pool: 'gpu', count: 100, ...normalBoots });
    await context.expectNever(
      'a finding was opened',
      3 * pass_seconds,
      async () => (await readFindings(context, 'open'))[0],
    );
    // The last boot ended just now.
    const every_seconds = (24 * hour - 500) / 39;
    const slowerBoots = { from: yesterday, every_seconds, stages: { ...stages, 'image-pull': 230 } };
    await recordStagedBoots(db, { pool: 'gpu', count: 40, after: 100, ...slowerBoots });
    await db.close();

    const slowPull = await waitForFinding(context, 'open');
    expect(slowPull).toMatchObject({
      what: 'boots_slower',
      pool: 'gpu',
      ours: { phase: 'provision', boots: 100, budget_seconds: 720 },
      theirs: { since: yesterday.toISOString(), boots: 40, past_budget_share: 0, stages: [{ stage: 'image-pull' }] },
    });
    expect(slowPull.says).toContain(`since ${yesterday.toISOString()}`);
    expect(slowPull.says).toMatch(
      /The stage image-pull went from 11\d s to 24\d s .*None of them has exceeded the budget/,
    );
    const metrics = await fetch(`${context.server.url}/metrics`, {
      headers: { authorization: `Bearer ${context.server.token}` },
    });
    expect(await metrics.text()).toMatch(/^slipway_findings\{kind="boot-shift"\} 1$/m);

    // The explanation of a provisioning machine cites the finding too.
    const { node } = await context.client.call('node-create', { body: { pool: 'gpu' } });
    const explanation = await context.client.call('node-explain', { params: { id: node.node_id } });
    expect(explanation.findings).toMatchObject([{ finding_id: slowPull.finding_id }]);

    const params = { id: slowPull.finding_id };
    const repair = context.client.call('drift-repair', { params, body: { reason: 'please' } });
    await expect(repair).rejects.toMatchObject({ problem: { code: 'action_illegal' } });
    await context.client.call('drift-accept', { params, body: { reason: 'the registry is being moved' } });
    await context.expectNever(
      'an accepted finding was opened again',
      3 * pass_seconds,
      async () => (await readFindings(context, 'open'))[0],
    );
    expect(await readFindings(context, 'accepted')).toMatchObject([
      { finding_id: slowPull.finding_id, actor: { name: 'admin' } },
    ]);
  },
  counterTests: [
    {
      broken: 'no boot-shift rule',
      composition: withoutSweep('boot-shift'),
      fails: /waited .* for a finding to be open/,
      patience_seconds: 10 * pass_seconds,
    },
  ],
});
