/**
 * The clean-up of a machine fails. The release names the step and its owner, is retried, and ends
 * with proof.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import type * as evidence from '../../../src/store/evidence/evidence.ts';
import { allocate, declarePool, readAllocation, release, waitForStatus } from '../../support/allocations.ts';
import { type ScenarioContext, scenario, whileBroken, withoutSweep } from '../support/scenario.ts';

/** A counter-test drops evidence of the kinds that match. */
const brokenParts = vi.hoisted((): { droppedKinds?: RegExp } => ({}));
vi.mock('../../../src/store/evidence/evidence.ts', async (original) => {
  const real = await original<typeof evidence>();
  const recordEvidence: typeof evidence.recordEvidence = (db, facts) =>
    real.recordEvidence(
      db,
      facts.filter(({ kind }) => !brokenParts.droppedKinds?.test(kind)),
    );
  return { ...real, recordEvidence };
});

const stepTries = 2;

async function story({ client, db, waitFor }: ScenarioContext, cleanable: string): Promise<void> {
  await declarePool(client, 'dirty', {
    reuse: true,
    max_nodes: 1,
    spec: {
      command: ['sleep', '600'],
      clean: `test -e ${cleanable} || { echo the volume is still mounted; exit 3; }`,
    },
    release: { step_tries: stepTries, retry_base_seconds: 0.5, retry_max_seconds: 1 },
  });
  const id = await allocate(client, 'dirty');
  const { node_id } = await waitForStatus(client, id, 'active');
  const readNode = () => client.call('node-get', { params: { id: node_id ?? '' } });
  expect(await readNode()).toMatchObject({ status: 'ready', fenced: false, occupancy: 'occupied' });

  await release(client, id);
  const failed = await waitForStatus(client, id, 'release_failed');
  expect(failed).toMatchObject({ owner_layer: 'node', verdict: { rule: 'release-deadline' } });
  const cleans = await db.query(
    `select 1 from tasks where allocation_id = $1 and type = 'release.clean' and status = 'failed'`,
    [id],
  );
  expect(cleans.length, 'tries of the step in one release').toBeGreaterThanOrEqual(stepTries);

  // The explanation names the failure and the next try, and does not show the deadline of the
  // finished try.
  const explanation = await waitFor('an explanation between two tries', async () => {
    const current = await client.call('node-explain', { params: { id: node_id ?? '' } });
    // The latest evidence becomes readable a moment later.
    const isRecorded = current.because.evidence.some(({ kind }) => kind === 'allocation.release_failed');
    return current.holder?.status === 'release_failed' && isRecorded ? current : undefined;
  });
  expect(explanation).toMatchObject({ status: 'cleaning', deadline_at: null, slow_stages: [] });
  const failure = explanation.because.evidence.find(({ kind }) => kind === 'allocation.release_failed');
  expect(failure?.data.evidence).toMatchObject({
    stage: 'clean',
    owner_layer: 'node',
    message: expect.stringContaining('the volume is still mounted'),
  });
  expect(explanation.actions[0]).toMatchObject({ action: 'retry-release', open: true });
  const errors = await db.query<{ step: string }>(
    `select distinct error ->> 'step' as step from operations where allocation_id = $1 and status = 'failed'`,
    [id],
  );
  expect(errors, 'the step under its public name, not the name in the engine').toEqual([{ step: 'clean' }]);
  expect(explanation.holder).toMatchObject({ allocation_id: id, owner_layer: 'node', retry_at: expect.any(String) });
  expect(explanation.waiting_for).toContain(
    `try ${(explanation.holder?.release_tries ?? 0) + 1} of its release: ${explanation.holder?.reason}`,
  );
  expect(explanation.next[0]).toMatchObject({ at: explanation.holder?.retry_at });

  // Meanwhile the machine is fenced, and the next tenant waits.
  const next = await allocate(client, 'dirty');
  const countFailedReleases = () => db.countEvidence(id, 'allocation.release_failed');
  await waitFor('another try by the rule', async () => ((await countFailedReleases()) > 1 ? true : undefined));
  const shownNode = await readNode();
  expect(shownNode).toMatchObject({ status: 'cleaning', fenced: true, occupancy: 'cleanup' });
  // Between two tries the API shows no deadline. The row keeps the deadline of the last try.
  const [row] = await db.query<{ granted_seconds: number; budget_seconds: number }>(
    `select extract(epoch from deadline_at - status_since)::float8 as granted_seconds, budget_seconds
     from nodes
     where node_id = $1`,
    [node_id],
  );
  expect(row?.granted_seconds, 'a new try gets a new deadline').toBeGreaterThan(row?.budget_seconds ?? Number.NaN);
  expect(shownNode.fence_reason).toBeTruthy();
  expect((await readAllocation(client, next)).status).toBe('requested');

  await writeFile(cleanable, '');
  await waitForStatus(client, id, 'released');
  expect(await waitForStatus(client, next, 'active')).toMatchObject({ node_id });
  expect(await readNode()).toMatchObject({ status: 'ready', fenced: false, occupancy: 'occupied' });
  const kinds = await waitFor('the proof on the timeline', async () => {
    const { items } = await client.call('timeline-get', { query: { allocation_id: id, limit: 500 } });
    const seenKinds = items.map(({ kind }) => kind).toReversed();
    return seenKinds.includes('proof.clean') && seenKinds.includes('allocation.released') ? seenKinds : undefined;
  });
  expect(kinds.indexOf('proof.clean')).toBeLessThan(kinds.indexOf('allocation.released'));
  expect(kinds.filter((kind) => kind === 'allocation.released')).toHaveLength(1);
  await release(client, next);
  await waitForStatus(client, next, 'released');
  expect(await readNode()).toMatchObject({ status: 'ready', fenced: false, occupancy: 'free' });
}

scenario({
  name: 'the clean-up of a release fails until its cause is removed',
  async story(context) {
    const files = await mkdtemp(join(tmpdir(), 'slipway-scenario-'));
    try {
      await story(context, join(files, 'cleanable'));
    } finally {
      await rm(files, { recursive: true, force: true });
    }
  },
  counterTests: [
    {
      broken: 'no retry of releases',
      composition: withoutSweep('release-retry'),
      fails: /for another try by the rule/,
    },
    {
      broken: 'proofs that are not stored',
      around: whileBroken(brokenParts, { droppedKinds: /^proof\./ }),
      fails: /for the proof on the timeline/,
    },
  ],
});
