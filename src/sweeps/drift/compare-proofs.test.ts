/** Tests which quarantined nodes are retired by a proof that their machine is gone. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { newCorrelationId } from '../../base/ids.ts';
import { defaultDriftSettings } from '../../lifecycle/findings/findings.ts';
import { defaultRetentionSeconds } from '../../lifecycle/limits/retention-classes.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { acceptFinding, repairFinding } from '../../operations/actions/findings.ts';
import { rebuildNodes } from '../../store/history/projection.ts';
import { verifySlice } from '../../store/history/verify-rows.ts';
import type { Database } from '../../store/pg/database.ts';
import type { FindingRow } from '../../store/rows/findings.ts';
import type { NodeRow } from '../../store/rows/nodes.ts';
import { type Fleet, readNodeRow } from '../../store/testing/fleet.ts';
import type { SweepServices } from '../runner/services.ts';
import { type DriftFixture, driftFixture } from '../testing/drift-fixture.ts';
import { drift } from './drift.ts';

const { every_seconds } = defaultDriftSettings;

let fixture: DriftFixture;
let db: Database;
let fleet: Fleet;
let services: SweepServices;

beforeEach(async () => {
  fixture = await driftFixture(await testDatabase());
  ({ db, fleet, services } = fixture);
});
afterEach(() => fixture.close());

const readFindings = () => db.query<FindingRow>('select * from findings order by finding_id');
const readStatus = async ({ node_id }: NodeRow) => (await readNodeRow(db, node_id)).status;
const findUnretired = async () =>
  (await verifySlice(db, 'nodes', { cursor: '', limit: 100 }, defaultRetentionSeconds)).unretired.map(
    ({ node_id }) => node_id,
  );

const runPasses = async (count: number, sweep = drift(services)) => {
  for (let pass = 0; pass < count; pass++) {
    await fleet.clock.advance(every_seconds * 1000);
    await sweep.run(fleet.now());
  }
};

const caller = {
  actor: { kind: 'token', id: 'tok_1', name: 'ann' } as const,
  visibility: wholeFleet,
  correlation_id: newCorrelationId(),
};
const request = { reason: 'the machine is gone' };

const insertOperation = (node: NodeRow, kind: string, status: string) =>
  db.query(
    `insert into operations (workflow_id, kind, revision, node_id, correlation_id, status, created_at)
     values ('wf_' || $1 || $2, $2, 1, $1, $4, $3, now())`,
    [node.node_id, kind, status, newCorrelationId()],
  );

const prove = ({ node_id, node_instance_id }: NodeRow, kind = 'absent', workflow_id: string | null = null) =>
  db.query(
    `insert into evidence (at, layer, kind, summary, node_id, node_instance_id, workflow_id, origin)
     values ($3, 'provider', 'proof.' || $4, 'nothing is there', $1, $2, $5, 'internal')`,
    [node_id, node_instance_id, fleet.now(), kind, workflow_id],
  );

/**
 * Creates the state that an earlier version left behind: a node quarantined during its release,
 * whose allocation was released by the proof.
 */
async function addUnretiredNode({ kind = 'absent' } = {}): Promise<NodeRow> {
  const node = await fleet.node('ready');
  const { allocation_id } = await fleet.allocation('active', node);
  await fleet.moveAllocation({ allocation_id, to: 'releasing', by: 'release', reason: 'asked for' });
  await fleet.move({ node_id: node.node_id, to: 'cleaning', by: 'release', reason: 'asked for' });
  await fleet.move({ node_id: node.node_id, to: 'quarantined', by: 'quarantine', reason: 'suspicious' });
  await insertOperation(node, 'allocation-release', 'succeeded');
  await prove(node, kind, `wf_${node.node_id}allocation-release`);
  await fleet.moveAllocation({ allocation_id, to: 'released', by: 'proof', reason: 'its machine is proven gone' });
  return node;
}

describe.each(['absent', 'revoked'])('a quarantined node of an earlier version, proven %s', (kind) => {
  test('is reported in the first pass and retired by its proof in the second', async () => {
    const node = await addUnretiredNode({ kind });
    expect(await findUnretired()).toEqual([node.node_id]);
    const sweep = drift(services);
    await runPasses(1, sweep);
    expect(await readFindings()).toMatchObject([{ what: 'proven_gone', subject: node.node_id, status: 'seen' }]);
    expect(await readStatus(node)).toBe('quarantined');
    await runPasses(1, sweep);
    expect(await readFindings()).toMatchObject([{ status: 'repaired', theirs: { proof: kind } }]);
    expect(await readStatus(node)).toBe('retired');
    expect(await findUnretired()).toEqual([]);
    expect(await rebuildNodes(db, [node.node_id])).toMatchObject([{ status: 'retired' }]);
    const facts = await db.query<{ kind: string }>(
      `select kind from evidence where node_id = $1 and (kind like 'finding.%' or kind = 'node.retired') order by xid, seq`,
      [node.node_id],
    );
    expect(facts.map(({ kind }) => kind)).toEqual(['finding.opened', 'node.retired', 'finding.repaired']);
  });
});

test('a proof retires a quarantined node that never had an allocation', async () => {
  const node = await fleet.node('quarantined');
  await prove(node);
  await runPasses(2);
  expect(await readStatus(node)).toBe('retired');
});

test('a proof that the machine sent itself, or about a former instance, retires no node', async () => {
  const node = await fleet.node('quarantined');
  await prove({ ...node, node_instance_id: 'inst_former' as NodeRow['node_instance_id'] });
  await db.query(
    `insert into evidence (at, layer, kind, summary, node_id, node_instance_id, origin) values (now(), 'provider', 'proof.absent', 'I am gone', $1, $2, 'outside')`,
    [node.node_id, node.node_instance_id],
  );
  // A credential revoked without a release proves nothing about the machine.
  await prove(node, 'revoked');
  await runPasses(3);
  expect(await readFindings()).toEqual([]);
  expect(await findUnretired()).toEqual([]);
  expect(await readStatus(node)).toBe('quarantined');
});

test.each(['node-re-enroll', 'node-retire', 'node-reimage'])(
  'does not touch a node while a %s operation runs',
  async (kind) => {
    const node = await addUnretiredNode();
    await insertOperation(node, kind, 'running');
    await runPasses(3);
    expect(await readFindings()).toEqual([]);
    expect(await readStatus(node)).toBe('quarantined');
  },
);

test('does not report a node whose failed release will be retried', async () => {
  const node = await fleet.node('quarantined');
  await fleet.allocation('release_failed', node);
  await prove(node);
  await runPasses(3);
  expect(await readFindings()).toEqual([]);
});

describe('a machine that its provider shows again after the proof', () => {
  const seenAgain = async () => {
    const node = await addUnretiredNode();
    await db.query(`update nodes set observed_state = 'running', observed_at = $2 where node_id = $1`, [
      node.node_id,
      fleet.now(),
    ]);
    await runPasses(3);
    const [finding] = await readFindings();
    return { node, finding_id: finding?.finding_id ?? '' };
  };

  test('stays quarantined, with an open finding', async () => {
    const { node } = await seenAgain();
    expect(await readFindings()).toMatchObject([
      { what: 'proven_gone', status: 'open', theirs: { proof: 'absent', observed_state: 'running' } },
    ]);
    expect(await readStatus(node)).toBe('quarantined');
  });

  test('is retired once the provider no longer shows it', async () => {
    const { node } = await seenAgain();
    await db.query(`update nodes set observed_state = 'absent', observed_at = $2 where node_id = $1`, [
      node.node_id,
      fleet.now(),
    ]);
    await runPasses(1);
    expect(await readFindings()).toMatchObject([{ what: 'proven_gone', status: 'repaired' }]);
    expect(await readStatus(node)).toBe('retired');
  });

  test('is torn down again when a person repairs the finding', async () => {
    const { node, finding_id } = await seenAgain();
    const { says } = await repairFinding(services, finding_id, { ...request, dry_run: true }, caller);
    expect(says).toBe('the machine is torn down again, with proof, and the node is retired');
    expect((await repairFinding(services, finding_id, request, caller)).workflow_id).toBeDefined();
    expect(await readStatus(node)).toBe('cleaning');
  });

  test('is not reported again once its finding is accepted', async () => {
    const { finding_id } = await seenAgain();
    await acceptFinding(services, finding_id, request, caller);
    await runPasses(2);
    expect(await readFindings()).toMatchObject([{ status: 'accepted', closed_at: null }]);
  });
});

test('a finding closes when an operation starts on the node', async () => {
  const node = await addUnretiredNode();
  const sweep = drift(services);
  await runPasses(1, sweep);
  await insertOperation(node, 'node-re-enroll', 'running');
  await runPasses(1, sweep);
  expect(await readFindings()).toEqual([]);
});
