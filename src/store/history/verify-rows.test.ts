/** Verification explains a missing row only if retention deleted it. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { memoryKeyRing } from '../../../test/support/key-ring.ts';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import { defaultKeepSeconds } from '../../lifecycle/limits/retention.ts';
import { defaultRetentionSeconds } from '../../lifecycle/limits/retention-classes.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import { createSealer, type Sealer } from '../integrity/sealer.ts';
import { createEvidenceSigner } from '../integrity/signer.ts';
import { verifyPage } from '../integrity/verify-chain.ts';
import { createPruner } from '../retention/prune.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { cutEvidence, extendEvidence } from './retention.ts';
import { verifySlice } from './verify-rows.ts';

const daySeconds = 24 * 3600;
const stepDays = 5;
/** The facts of deletions are in the layer `store`, so they are dropped first. */
const keepEvidence = { ...defaultKeepSeconds, operator: 400 * daySeconds, store: stepDays * daySeconds };
const ring = memoryKeyRing();

let store: TestStore;
let fleet: Fleet;
let sealer: Sealer;

beforeAll(async () => {
  store = await testStore();
  fleet = await testFleet(store.db);
  const installation = { installation_id: 'test' };
  sealer = createSealer({ db: store.db, key_ring: ring, installation });
});
afterAll(() => store.close());

/** Retention waits for the seals, so the tests do too. */
const sealAll = () =>
  until('everything to be sealed', async () => {
    while ((await sealer.sealBatch(fleet.now())).more);
    return (await verifyPage(store.db, createEvidenceSigner(ring), Number.MAX_SAFE_INTEGER)).tail?.rows === 0;
  });

/** Lets days pass in steps, in which evidence is partitioned, sealed and cut. */
async function passDays(days: number): Promise<void> {
  const { db } = store;
  for (let passed = 0; passed < days; passed += stepDays) {
    // A layer without facts gets no partitions.
    await recordEvidence(db, [{ at: fleet.now(), layer: 'store', kind: 'ingest.gap', summary: 'a gap' }]);
    await extendEvidence(db, keepEvidence, fleet.now());
    await fleet.clock.advance(stepDays * daySeconds * 1000);
    await sealAll();
    await cutEvidence(db, sealer, keepEvidence, fleet.now());
  }
}

const missingRows = async () => {
  const slice = { cursor: '', limit: 1000 };
  const { differing } = await verifySlice(store.db, 'allocations', slice, defaultRetentionSeconds);
  return differing.map(({ subject }) => subject);
};

test('reports a released row that was deleted by hand, also after a cut of the layer with deletions', async () => {
  const { allocation_id } = await fleet.allocation('released');
  await passDays(30);
  expect(await missingRows()).toEqual([]);
  await store.db.query('delete from allocations where allocation_id = $1', [allocation_id]);
  expect(await missingRows()).toEqual([allocation_id]);
});

test('explains a row that retention deleted, also after the fact of its deletion was dropped', async () => {
  const { allocation_id } = await fleet.allocation('released');
  await passDays(95);
  await createPruner(store.db).pass(defaultRetentionSeconds, fleet.now());
  const query = (sql: string) => store.db.query(sql, [allocation_id]);
  expect(await query('select from allocations where allocation_id = $1')).toEqual([]);
  const facts = `select from evidence where allocation_id = $1 and kind = 'allocation.pruned'`;
  expect(await query(facts)).toHaveLength(1);
  expect(await missingRows()).not.toContain(allocation_id);
  await passDays(20);
  expect(await query(facts)).toEqual([]);
  expect(await query('select from evidence where allocation_id = $1')).not.toEqual([]);
  expect(await missingRows()).not.toContain(allocation_id);
});
