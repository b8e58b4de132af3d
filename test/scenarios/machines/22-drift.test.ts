/**
 * Machines are removed from outside, or statuses are written past the transitions. A drift finding
 * is opened after two passes, shows both sides, and is resolved.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Allocation } from '../../../src/contract/allocation.ts';
import type { PoolDocument } from '../../../src/contract/pool.ts';
import type { Finding } from '../../../src/contract/supervision/finding.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { findTaggedProcesses, killTagged } from '../../support/tagged-processes.ts';
import {
  allocationOf,
  causesOf,
  externalPool,
  joinMachine,
  localPool,
  nodeOf,
  waitForAllocation,
  waitForNode,
} from '../support/machines.ts';
import { type ScenarioContext, scenario, withDeciders, withoutSweep } from '../support/scenario.ts';

const pass_seconds = 0.5;
const settings: Pick<Composition, 'environment'> = {
  environment: (built) => ({ ...built, drift: { ...built.drift, every_seconds: pass_seconds } }),
};
/** The long stale time keeps the liveness rule out; only the drift rule acts here. */
const heartbeat = { interval_seconds: 1, stale_after_seconds: 600 };
const patience_seconds = 10 * pass_seconds;

async function allocateActive(context: ScenarioContext, pool: string): Promise<Allocation & { node_id: string }> {
  const { allocation } = await context.client.call('allocation-create', { body: { pool } });
  const active = await waitForAllocation(context, allocation.allocation_id, 'active');
  return { ...active, node_id: active.node_id ?? '' };
}

/** Removes the machine's processes and its directory. */
async function removeFromOutside(context: ScenarioContext, node_id: string): Promise<string> {
  const { node_instance_id } = await nodeOf(context, node_id);
  const remainingProcesses = () =>
    findTaggedProcesses(context.db.installation_id).filter((each) => each.node_instance_id === node_instance_id);
  await context.waitFor('the processes of the machine to end', () => {
    killTagged(context.db.installation_id, node_instance_id);
    return remainingProcesses().length === 0 ? true : undefined;
  });
  rmSync(join(context.server.nodes_dir, node_instance_id ?? ''), { recursive: true });
  return node_instance_id ?? '';
}

const readFindings = async (
  context: ScenarioContext,
  subject: string,
  status: Finding['status'] = 'open',
): Promise<Finding[]> => {
  const { items } = await context.client.call('drift-list', { query: { status } });
  return items.filter((finding) => finding.subject === subject);
};

const waitForFinding = (
  context: ScenarioContext,
  subject: string,
  status: Finding['status'] = 'open',
): Promise<Finding> =>
  context.waitFor(`a finding to be ${status}`, async () => (await readFindings(context, subject, status))[0]);

const countEvidence = (context: ScenarioContext, node_id: string, kind: string) =>
  context.db.countRows('select 1 from evidence where node_id = $1 and kind = $2', [node_id, kind]);

const withPolicy = (policy: 'report' | 'repair' | 'quarantine'): Partial<PoolDocument> => ({
  heartbeat,
  drift: { policy },
});

scenario({
  name: 'machines that are removed from outside',
  settings,
  async story(context) {
    await localPool(context, 'reported', { heartbeat });
    await localPool(context, 'mended', withPolicy('repair'));
    await localPool(context, 'aside', withPolicy('quarantine'));
    const [repaired, accepted, mended, aside] = await Promise.all(
      ['reported', 'reported', 'mended', 'aside'].map((pool) => allocateActive(context, pool)),
    );
    if (!repaired || !accepted || !mended || !aside) throw new Error('four machines were requested');
    const instances = await Promise.all(
      [repaired, accepted, mended, aside].map(({ node_id }) => removeFromOutside(context, node_id)),
    );

    // The finding shows both sides. Nothing happens until an operator decides.
    const finding = await waitForFinding(context, repaired.node_id);
    expect(finding).toMatchObject({
      kind: 'drift',
      what: 'machine_absent',
      pool: 'reported',
      node_instance_id: instances[0],
      allocation_id: repaired.allocation_id,
      ours: { status: 'ready' },
      theirs: { state: 'absent', driver: 'local' },
    });
    expect(finding.passes, 'passes before the finding was opened').toBeGreaterThanOrEqual(2);
    expect(await nodeOf(context, repaired.node_id)).toMatchObject({ status: 'ready', observed: { state: 'absent' } });
    const explanation = await context.client.call('node-explain', { params: { id: repaired.node_id } });
    expect(explanation.findings).toMatchObject([{ finding_id: finding.finding_id }]);
    const metrics = await (
      await fetch(`${context.server.url}/metrics`, { headers: { authorization: `Bearer ${context.server.token}` } })
    ).text();
    expect(metrics).toMatch(/^slipway_findings\{kind="drift"\} [1-9]/m);

    // An operator decides to take the machine down with proof, or to accept the finding.
    const decide = { params: { id: finding.finding_id }, body: { reason: 'the rack was sold' } };
    const prediction = await context.client.call('drift-repair', {
      ...decide,
      body: { ...decide.body, dry_run: true },
    });
    expect(prediction).toMatchObject({ dry_run: true, finding: { status: 'open' } });
    expect((await nodeOf(context, repaired.node_id)).status, 'a dry run changes nothing').toBe('ready');
    const repairReply = await context.client.call('drift-repair', decide);
    expect(repairReply.finding).toMatchObject({
      status: 'repaired',
      reason: 'the rack was sold',
      actor: { name: 'admin' },
    });
    await waitForNode(context, repaired.node_id, 'retired');
    expect(await waitForAllocation(context, repaired.allocation_id, 'failed')).toMatchObject({
      verdict: { rule: 'node-lost' },
      reason: expect.stringContaining('the rack was sold'),
    });
    const secondRepair = context.client.call('drift-repair', decide);
    await expect(secondRepair).rejects.toMatchObject({ problem: { code: 'action_illegal' } });

    const acceptedFinding = await waitForFinding(context, accepted.node_id);
    const params = { id: acceptedFinding.finding_id };
    await context.client.call('drift-accept', { params, body: { reason: 'it comes back tomorrow' } });
    await context.expectNever('an accepted finding was opened again', 4 * pass_seconds, async () =>
      (await readFindings(context, accepted.node_id)).at(0),
    );
    expect((await nodeOf(context, accepted.node_id)).status).toBe('ready');

    // With the policy `repair` the machine is taken down with proof. Its allocation names the
    // cause.
    await waitForNode(context, mended.node_id, 'retired');
    expect(await causesOf(context, mended.node_id)).toEqual(expect.arrayContaining(['claim-ready', 'drift', 'proof']));
    const lostAllocation = await waitForAllocation(context, mended.allocation_id, 'failed');
    expect(lostAllocation).toMatchObject({ verdict: { rule: 'node-lost' }, owner_layer: 'node' });
    expect(lostAllocation.reason).toContain('its provider no longer shows the machine');
    expect(await waitForFinding(context, mended.node_id, 'repaired')).toMatchObject({
      reason: 'by the policy of its pool',
    });

    // With the policy `quarantine` the finding stays open until an operator decides.
    const quarantinedNode = await waitForNode(context, aside.node_id, 'quarantined');
    expect(quarantinedNode).toMatchObject({ fenced: true, verdict: { rule: 'drift' } });
    expect(await readFindings(context, aside.node_id)).toMatchObject([{ status: 'open' }]);
    expect((await allocationOf(context, aside.allocation_id)).status).toBe('active');
    expect(await countEvidence(context, aside.node_id, 'finding.opened')).toBe(1);
  },
  counterTests: [
    {
      broken: 'no drift rule',
      composition: withoutSweep('drift'),
      fails: /waited .* for a finding to be open/,
      patience_seconds,
    },
    {
      broken: 'findings that are opened after one pass',
      composition: withDeciders(() => ({ isConfirmed: () => true })),
      fails: /passes before the finding was opened/,
    },
  ],
});

/** Writes a status with SQL, past the transitions. */
const writeStatus = (context: ScenarioContext, node_id: string, status: string) =>
  context.db.query('update nodes set status = $2 where node_id = $1', [node_id, status]);

scenario({
  name: 'statuses that are written past the transitions',
  settings,
  async story(context) {
    await externalPool(context, 'dock', { heartbeat });
    const { node_id } = await joinMachine(context, 'dock', 'pier-1');
    await externalPool(context, 'mended', withPolicy('repair'));
    const mended = await joinMachine(context, 'mended', 'pier-2');
    const before = await nodeOf(context, node_id);

    await writeStatus(context, node_id, 'quarantined');
    const finding = await waitForFinding(context, node_id);
    expect(finding).toMatchObject({
      what: 'row_differs',
      ours: { status: 'quarantined' },
      theirs: { status: before.status },
    });
    await context.client.call('drift-repair', { params: { id: finding.finding_id }, body: { reason: 'not by us' } });
    expect((await nodeOf(context, node_id)).status).toBe(before.status);
    expect(await countEvidence(context, node_id, 'node.restored')).toBe(1);

    await writeStatus(context, node_id, 'quarantined');
    const openFinding = await waitForFinding(context, node_id);
    await context.client.call('drift-accept', {
      params: { id: openFinding.finding_id },
      body: { reason: 'we did that' },
    });
    expect((await nodeOf(context, node_id)).status).toBe('quarantined');
    await context.expectNever('row and evidence disagreed again', 4 * pass_seconds, async () =>
      (await readFindings(context, node_id)).at(0),
    );

    // Reverting the write by hand closes the finding.
    await writeStatus(context, node_id, 'offline');
    await waitForFinding(context, node_id);
    await writeStatus(context, node_id, 'quarantined');
    expect(await waitForFinding(context, node_id, 'resolved')).toMatchObject({
      reason: 'row and evidence agree again',
    });

    // With the policy `repair` the row is restored without an operator.
    await writeStatus(context, mended.node_id, 'failed');
    await waitForFinding(context, mended.node_id, 'repaired');
    expect((await nodeOf(context, mended.node_id)).status).toBe('starting');
  },
  counterTests: [
    {
      broken: 'no drift rule',
      composition: withoutSweep('drift'),
      fails: /waited .* for a finding to be open/,
      patience_seconds,
    },
  ],
});

/**
 * Rows as an earlier version left them: an operator quarantined the node during its release, the
 * machine was proven gone and the allocation released, but the node kept its status.
 */
async function createLeftover(
  context: ScenarioContext,
  { allocation_id, node_id }: Allocation & { node_id: string },
): Promise<void> {
  await context.client.call('node-act', {
    params: { id: node_id, action: 'quarantine' },
    body: { reason: 'odd noises' },
  });
  const node_instance_id = await removeFromOutside(context, node_id);
  await context.db.query(
    `with proven as (
       insert into evidence (at, layer, kind, summary, node_id, node_instance_id, allocation_id, origin)
       values (now(), 'provider', 'proof.absent', 'nothing is there', $1, $2, $3, 'internal')
       returning at),
     record as (
       insert into evidence (at, layer, kind, summary, node_id, allocation_id, origin, data)
       select at, 'workflow', 'allocation.released', 'its machine is proven gone', $1, $3, 'internal',
         jsonb_build_object('from', 'active', 'to', 'released', 'by', 'proof',
           'set', jsonb_build_object('status', 'released', 'status_since', at, 'released_at', at))
       from proven)
     update allocations set status = 'released', status_since = proven.at, released_at = proven.at
     from proven
     where allocation_id = $3`,
    [node_id, node_instance_id, allocation_id],
  );
}

scenario({
  name: 'a node that an earlier version left behind, with its machine proven gone',
  settings,
  async story(context) {
    await localPool(context, 'ghosts', { heartbeat, max_nodes: 1 });
    const leftover = await allocateActive(context, 'ghosts');
    await createLeftover(context, leftover);
    expect(await waitForFinding(context, leftover.node_id, 'repaired')).toMatchObject({
      what: 'proven_gone',
      owner_layer: 'control_plane',
      reason: 'by the proof on record',
      theirs: { proof: 'absent' },
    });
    expect((await nodeOf(context, leftover.node_id)).status).toBe('retired');
    // The place of the retired machine in the pool is free again.
    await allocateActive(context, 'ghosts');
  },
  counterTests: [
    {
      broken: 'no drift rule',
      composition: withoutSweep('drift'),
      fails: /waited .* for a finding to be repaired/,
      patience_seconds,
    },
  ],
});

scenario({
  name: 'boots that fail repeatedly',
  settings,
  async story(context) {
    const spec = { setup: 'exit 7' };
    await localPool(context, 'broken', { heartbeat, attempts: 3, spec });
    const { allocation } = await context.client.call('allocation-create', { body: { pool: 'broken' } });
    const finding = await waitForFinding(context, 'broken/1');
    expect(finding).toMatchObject({ kind: 'repeat-failure', what: 'pool_provisions', ours: { generation: 1 } });
    expect(finding.theirs.failures).toBe(3);
    expect(finding.theirs.newest).toHaveLength(3);
    const { node_id } = await allocationOf(context, allocation.allocation_id);
    expect(await waitForFinding(context, node_id ?? '')).toMatchObject({ what: 'node_provisions', node_id });

    // The pool's spec changed, so the failures of the old machines no longer count.
    await localPool(context, 'broken', { heartbeat, attempts: 3, spec: { setup: 'exit 0' } });
    await context.client.call('allocation-release', { params: { id: allocation.allocation_id } });
    expect(await waitForFinding(context, 'broken/1', 'resolved')).toMatchObject({ status: 'resolved' });
  },
  counterTests: [
    {
      broken: 'no repeat-failure rule',
      composition: withoutSweep('repeat-failure'),
      fails: /waited .* for a finding to be open/,
      patience_seconds,
    },
  ],
});
