/**
 * A reimaged machine becomes a new instance, and its prerequisites are checked again. The records
 * of the old instance stay readable, and its calls are refused with `instance_fenced`.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, vi } from 'vitest';
import { runCli } from '../../../src/cli/testing/run-cli.ts';
import type { Evidence } from '../../../src/contract/evidence/evidence.ts';
import type { PoolDocument } from '../../../src/contract/pool.ts';
import type * as NewInstance from '../../../src/operations/provision/new-instance.ts';
import type * as Teardown from '../../../src/operations/release/teardown.ts';
import type * as AgentSessions from '../../../src/store/agents/sessions/agent-sessions.ts';
import { callRoute, expectProblem } from '../../api/support/calls.ts';
import { credentialsOf, expectFenced, recordOf } from '../support/instances.ts';
import { causesOf, localPool, nodeOf, waitForAllocation, waitForNode } from '../support/machines.ts';
import { type ScenarioContext, scenario, whileBroken } from '../support/scenario.ts';

type Session = AgentSessions.AgentSession | undefined;
type Parts = Pick<typeof NewInstance, 'followPool'> &
  Pick<typeof Teardown, 'tearDown'> & { alterSession(session: Session): Session };
const brokenParts = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/operations/provision/new-instance.ts'), async (original) => {
  const originalModule = await original();
  return { ...originalModule, followPool: (...args) => (brokenParts.followPool ?? originalModule.followPool)(...args) };
});
vi.mock(import('../../../src/operations/release/teardown.ts'), async (original) => {
  const originalModule = await original();
  return { ...originalModule, tearDown: (...args) => (brokenParts.tearDown ?? originalModule.tearDown)(...args) };
});
vi.mock(import('../../../src/store/agents/sessions/agent-sessions.ts'), async (original) => {
  const originalModule = await original();
  return {
    ...originalModule,
    createAgentSessions: (db) => {
      const sessions = originalModule.createAgentSessions(db);
      const alterSession = (session: Session) =>
        brokenParts.alterSession ? brokenParts.alterSession(session) : session;
      return { ...sessions, find: async (...args) => alterSession(await sessions.find(...args)) };
    },
  };
});

let files: string;
beforeAll(async () => {
  files = await mkdtemp(join(tmpdir(), 'slipway-reimage-'));
});
afterAll(() => rm(files, { recursive: true, force: true }));

const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 30 };
const spec = {
  setup: 'echo the rig is set up',
  command: ['sleep', '600'],
  boot_stages: [{ name: 'image-pull', seconds: 0.1 }],
};
const declareRig = (context: ScenarioContext, document: Partial<PoolDocument> = {}) =>
  localPool(context, 'rig', { heartbeat, reuse: true, max_nodes: 1, spec, ...document });

const reimage = (context: ScenarioContext, id: string, body: { reason: string; dry_run?: boolean }) =>
  callRoute(
    context.server.url,
    'node-act',
    { params: { id, action: 'reimage' }, body },
    { bearer: context.server.token },
  );

const expectReimageRefused = async (context: ScenarioContext, id: string, why: RegExp) => {
  const answer = await reimage(context, id, { reason: 'try' });
  expectProblem(answer, 'action_illegal');
  expect(String(answer.body.detail)).toMatch(why);
};

/** A machine that served an allocation, was released and is free. */
async function freeMachine(context: ScenarioContext): Promise<{ node_id: string; node_instance_id: string }> {
  const { allocation } = await context.client.call('allocation-create', { body: { pool: 'rig' } });
  const { node_id } = await waitForAllocation(context, allocation.allocation_id, 'active');
  await expectReimageRefused(context, node_id ?? '', /An allocation uses it; release the allocation first/);
  await context.client.call('allocation-release', { params: { id: allocation.allocation_id } });
  await waitForAllocation(context, allocation.allocation_id, 'released');
  const node = await waitForNode(context, node_id ?? '', 'ready');
  return { node_id: node.node_id, node_instance_id: node.node_instance_id ?? '' };
}

const waitForNewInstance = (context: ScenarioContext, id: string, former: string) =>
  context.waitFor('node to be ready as a new instance', async () => {
    const node = await nodeOf(context, id);
    return node.status === 'ready' && node.node_instance_id !== former ? node : undefined;
  });

/**
 * The records of an instance survive its replacement, together with the diagnostics that its agent
 * and its provider saved before the teardown.
 */
async function expectRecordsKept(
  context: ScenarioContext,
  id: string,
  instance: string,
  before: Awaited<ReturnType<typeof recordOf>>,
) {
  const after = await context.waitFor('the saved diagnostics of the former instance', async () => {
    const found = await recordOf(context, id, instance);
    const hasRecords =
      ['proof.absent', 'instance.revoked'].every((kind) => found.facts.includes(kind)) &&
      ['node', 'provider'].every((layer) => found.frozen_by.includes(layer));
    return hasRecords ? found : undefined;
  });
  expect(after.stages).toEqual(before.stages);
  expect(after.lines.slice(0, before.lines.length)).toEqual(before.lines);
  expect(after.facts.slice(0, before.facts.length)).toEqual(before.facts);
}

/** The whole timeline of a node, oldest first. */
async function readTimeline(context: ScenarioContext, node_id: string): Promise<Evidence[]> {
  const facts: Evidence[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: { items: Evidence[]; next_cursor: string | null } = await context.client.call('timeline-get', {
      query: { node_id, order: 'oldest', limit: 500, ...(cursor && { cursor }) },
    });
    facts.push(...page.items);
    cursor = page.next_cursor;
  }
  return facts;
}

/** Retires the machine and expects the lines and verdicts of each instance to stay readable. */
async function expectRecordsSurviveRetirement(
  context: ScenarioContext,
  node_id: string,
  allocation_id: string,
  instances: string[],
) {
  const instancesIn = (facts: Evidence[]) =>
    new Set(facts.filter(({ kind }) => kind.startsWith('node.')).map(({ node_instance_id }) => node_instance_id));
  // A timeline shows nothing newer than the oldest open transaction, so the latest facts may appear
  // a moment later.
  const timeline = await context.waitFor('every instance on the timeline', async () => {
    const facts = await readTimeline(context, node_id);
    return instancesIn(facts).size >= instances.length ? facts : undefined;
  });
  expect(instancesIn(timeline)).toEqual(new Set(instances));
  const before = {
    timeline,
    records: await Promise.all(instances.map((each) => recordOf(context, node_id, each))),
  };
  const failure = before.timeline.find(({ kind }) => kind === 'node.failed');
  await context.client.call('allocation-release', { params: { id: allocation_id } });
  await waitForAllocation(context, allocation_id, 'released');
  await context.client.call('node-act', { params: { id: node_id, action: 'retire' }, body: { reason: 'scrapped' } });
  await waitForNode(context, node_id, 'retired');

  expect((await readTimeline(context, node_id)).slice(0, before.timeline.length)).toEqual(before.timeline);
  for (const [place, instance] of instances.entries()) {
    const after = await recordOf(context, node_id, instance);
    const recordBefore = before.records[place];
    expect(after.stages).toEqual(recordBefore?.stages);
    expect(after.lines.slice(0, recordBefore?.lines.length)).toEqual(recordBefore?.lines);
    expect(after.facts.slice(0, recordBefore?.facts.length)).toEqual(recordBefore?.facts);
  }
  // The node's state at its failure can still be reconstructed.
  const stateAtFailure = await context.client.call('node-state', {
    params: { id: node_id },
    query: { at: failure?.at ?? '' },
  });
  expect(stateAtFailure).toMatchObject({ status: 'failed', node_instance_id: failure?.node_instance_id });
  expect(stateAtFailure.verdict).toMatchObject({ rule: 'provision-error', reason: failure?.data.reason });
  const { items } = await context.client.call('store-verify', {});
  expect(items).toEqual([]);
}

scenario({
  name: 'a machine that is reimaged after its pool added a prerequisite',
  async story(context) {
    const scratch = join(files, `scratch-${context.db.installation_id}`);
    await declareRig(context);
    const { node_id, node_instance_id: former } = await freeMachine(context);
    const credentials = await credentialsOf(context, former);
    const before = await context.waitFor('the log lines of the machine', async () => {
      const found = await recordOf(context, node_id, former);
      return found.lines.some(({ line }) => line === 'the rig is set up') && found.stages.length > 0
        ? found
        : undefined;
    });

    await writeFile(scratch, '');
    await declareRig(context, { requires: [{ name: 'scratch-disk', check: `test -e ${scratch}` }] });
    const prediction = await reimage(context, node_id, { reason: 'try', dry_run: true });
    expect(prediction.body).toMatchObject({
      dry_run: true,
      node: { status: 'ready' },
      predicts: { status: 'cleaning' },
    });
    expect(prediction.body.predicts).toMatchObject({ says: expect.stringContaining('from generation 2 of its pool') });

    const env = { SLIPWAY_TOKEN: context.server.token };
    const args = ['act', node_id, 'reimage', '--reason', 'a new kernel'];
    const output = await runCli(args, { server: context.server.url, env });
    expect(output).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`✔ reimage on ${node_id}: `),
    });
    const replacement = await waitForNewInstance(context, node_id, former);
    expect((await causesOf(context, node_id)).slice(-4)).toEqual(['reimage', 'proof', 'registration', 'claim-ready']);
    await expectFenced(context, credentials);
    await expectRecordsKept(context, node_id, former, before);
    const currentRecord = await context.waitFor('the prerequisite to be reported', async () => {
      const found = await recordOf(context, node_id, replacement.node_instance_id ?? '');
      return found.facts.includes('prerequisite.met') ? found : undefined;
    });
    expect(currentRecord.lines.some(({ line }) => line === 'the rig is set up')).toBe(true);

    await rm(scratch);
    expect((await reimage(context, node_id, { reason: 'try again' })).status).toBe(200);
    const failed = await waitForNode(context, node_id, 'failed');
    expect(failed.verdict?.rule).toBe('provision-error');
    expect(failed.verdict?.reason).toMatch(/scratch-disk is missing.*prerequisite_missing/);
    expect(failed.deadline_at).not.toBeNull();

    await writeFile(scratch, '');
    expect((await reimage(context, node_id, { reason: 'the disk is back' })).status).toBe(200);
    const repairedNode = await waitForNewInstance(context, node_id, failed.node_instance_id ?? '');
    const { allocation } = await context.client.call('allocation-create', { body: { pool: 'rig' } });
    const { node_id: served } = await waitForAllocation(context, allocation.allocation_id, 'active');
    expect({ node_id: served, occupancy: repairedNode.occupancy }).toEqual({ node_id, occupancy: 'free' });
    const laterInstances = [replacement, failed, repairedNode].map(({ node_instance_id }) => node_instance_id ?? '');
    await expectRecordsSurviveRetirement(context, node_id, allocation.allocation_id, [former, ...laterInstances]);
  },
  counterTests: [
    {
      broken: 'a replaced instance treated as unknown',
      around: whileBroken(brokenParts, {
        alterSession: (session) => (session?.fence.kind === 'fenced' ? undefined : session),
      }),
      fails: /credential_unknown/,
    },
    {
      broken: 'a new instance with the old pool document',
      around: whileBroken(brokenParts, { followPool: async (_, node) => node }),
      fails: /waited .* for the prerequisite to be reported/,
    },
    {
      broken: 'a log that is deleted with its machine',
      around: whileBroken(brokenParts, {
        async tearDown(context, services, down) {
          const { tearDown } = await vi.importActual<typeof Teardown>('../../../src/operations/release/teardown.ts');
          const proof = await tearDown(context, services, down);
          if (!down.reuse)
            await services.db.query('delete from node_log_chunks where node_id = $1', [down.subject.node.node_id]);
          return proof;
        },
      }),
      fails: /expected \[.*\] to deeply equal \[/,
    },
  ],
});

scenario({
  name: 'a machine that cannot be taken down',
  async story(context) {
    const cleanable = join(files, `cleanable-${context.db.installation_id}`);
    await writeFile(cleanable, '');
    const clean = `test -e ${cleanable} || { echo the array is busy; exit 3; }`;
    await declareRig(context, { spec: { ...spec, clean }, release: { step_tries: 1, retry_base_seconds: 0.5 } });
    const { node_id, node_instance_id: former } = await freeMachine(context);
    const credentials = await credentialsOf(context, former);
    await rm(cleanable);
    expect((await reimage(context, node_id, { reason: 'a new kernel' })).status).toBe(200);
    const quarantinedNode = await waitForNode(context, node_id, 'quarantined');
    expect(quarantinedNode).toMatchObject({ node_instance_id: former, fenced: true, verdict: { rule: 'clean-error' } });
    expect(quarantinedNode.verdict?.reason).toMatch(/^the reimage failed at step clean \(owner node\): .*code 3/);
    // The machine is half torn down, so its old instance is fenced and cannot be reactivated.
    await expectFenced(context, credentials);
    const reactivation = { params: { id: node_id, action: 'reactivate' }, body: { reason: 'try' } } as const;
    const refusal = await callRoute(context.server.url, 'node-act', reactivation, { bearer: context.server.token });
    expectProblem(refusal, 'action_illegal');
    expect(String(refusal.body.detail)).toMatch(/Its instance is fenced .*reimage it/s);

    await writeFile(cleanable, '');
    expect((await reimage(context, node_id, { reason: 'the array is free' })).status).toBe(200);
    await waitForNewInstance(context, node_id, former);
  },
  counterTests: [
    {
      broken: 'a teardown that does nothing',
      around: whileBroken(brokenParts, { tearDown: async () => {} }),
      fails: /waited .* for node to be quarantined/,
    },
  ],
});
