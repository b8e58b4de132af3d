/**
 * An explanation cites the right evidence, and reads few blocks even for a machine with many
 * facts.
 */
import { expect, it } from 'vitest';
import { testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import { secondsLater } from '../../base/clock.ts';
import type { AllocationId } from '../../base/ids.ts';
import { evidenceKinds } from '../../contract/evidence/evidence-kinds.ts';
import { tenantOnly, type Visibility, wholeFleet } from '../../lifecycle/visibility.ts';
import { areFactsSettled, blockCounter, recordMany } from '../testing/block-counter.ts';
import { testFleet } from '../testing/fleet.ts';
import { type Fact, recordEvidence } from './evidence.ts';
import { citedKinds, readCitedEvidence } from './explanation-evidence.ts';

it.each([20, 200])('cites a cause and only the last deadline move after %i moves', async (moves) => {
  const store = await testStore();
  try {
    const fleet = await testFleet(store.db);
    const { node_id, node_instance_id, status } = await fleet.node('starting');
    const kinds: Fact['kind'][] = ['node.would_have', ...Array<Fact['kind']>(moves).fill('node.deadline_moved')];
    const facts = kinds.map(
      (kind, index): Fact => ({
        at: secondsLater(fleet.now(), index),
        layer: 'rule',
        kind,
        summary: `${kind} ${index}`,
        node_id,
        node_instance_id,
      }),
    );
    const beforeThisStatus: Fact = {
      ...(facts[0] as Fact),
      kind: 'probe.answered',
      at: secondsLater(fleet.now(), -86_400),
    };
    await store.db.transaction((tx) => recordEvidence(tx, [...facts, beforeThisStatus]));
    const deadline_at = secondsLater(fleet.now(), 60).toISOString();
    const cited = await until('the facts to be settled', async () => {
      const evidence = await readCitedEvidence(
        store.db,
        { node_id, node_instance_id, status, deadline_at },
        wholeFleet,
        null,
      );
      const matching = evidence.filter(
        ({ kind, summary }) => kind === 'probe.answered' || facts.some((fact) => fact.summary === summary),
      );
      return matching.length > 0 ? matching : undefined;
    });
    expect(cited.map(({ summary }) => summary)).toEqual([`node.deadline_moved ${moves}`, 'node.would_have 0']);
  } finally {
    await store.close();
  }
});

/**
 * The tables are not analyzed: a prepared statement may keep the plan that it got when the tenant
 * had just begun to allocate.
 */
it('reads about as many blocks for a tenant with 3,000 allocations as for the whole fleet', async () => {
  const store = await testStore({ max_connections: 1 });
  try {
    const fleet = await testFleet(store.db);
    const node = await fleet.node('ready');
    const { allocation_id } = await fleet.allocation('requested', null, 'acme');
    await store.db.query(
      `insert into allocations (allocation_id, pool, tenant, status, status_since, correlation_id, created_at)
       select 'alloc_many_' || n, pool, tenant, status, status_since, correlation_id, created_at
       from allocations, generate_series(1, 3000) n where allocation_id = $1`,
      [allocation_id],
    );
    const kinds = ['node.ready', 'probe.answered', 'node.explained'] as const;
    await recordMany(store.db, 9_000, (index) => ({
      ...{ at: fleet.now(), layer: 'workflow', kind: kinds[index % kinds.length] as Fact['kind'], summary: 'x' },
      allocation_id: `alloc_many_${1 + Math.trunc(index / 3)}` as AllocationId,
    }));
    await until('every fact to be settled', () => areFactsSettled(store.db));
    const count = blockCounter(store.db);
    const countBlocksFor = (visibility: Visibility) =>
      count((counting) => readCitedEvidence(counting, { ...node, deadline_at: null }, visibility, null));
    const fleetBlocks = await countBlocksFor(wholeFleet);
    expect(await countBlocksFor(tenantOnly('acme'))).toBeLessThan(1.5 * fleetBlocks);
  } finally {
    await store.close();
  }
});

/** The first kind is never cited. The second is cited, and a machine can repeat it at will. */
it.each(['boot.stage', 'prerequisite.missing'] as const)(
  'reads about as many blocks after 20,000 reports as after 4,000 (%s)',
  async (kind) => {
    const store = await testStore({ max_connections: 1 });
    try {
      const fleet = await testFleet(store.db);
      const node = await fleet.node('ready');
      const count = blockCounter(store.db);
      // Includes a tenant that owns none of the facts, and an instance that reported nothing.
      const countBlocks = async () => {
        await until('every fact to be settled', () => areFactsSettled(store.db));
        await store.db.query('analyze evidence');
        const subject = { ...node, deadline_at: null };
        const otherInstance = { ...subject, node_instance_id: 'inst_fresh' };
        return [
          await count((counting) => readCitedEvidence(counting, subject, wholeFleet, null)),
          await count((counting) => readCitedEvidence(counting, subject, tenantOnly('acme'), null)),
          await count((counting) => readCitedEvidence(counting, otherInstance, wholeFleet, null)),
        ];
      };
      const { node_id, node_instance_id } = node;
      const report = { at: fleet.now(), layer: 'node', kind, summary: 'x'.repeat(200) } as const;
      await recordMany(store.db, 4_000, () => ({ ...report, node_id, node_instance_id }));
      const blocksOfFew = await countBlocks();
      await recordMany(store.db, 16_000, () => ({ ...report, node_id, node_instance_id }));
      for (const [index, blocks] of (await countBlocks()).entries())
        expect(blocks).toBeLessThan(1.5 * (blocksOfFew[index] ?? 0));
    } finally {
      await store.close();
    }
  },
);

it('each partial index contains exactly the kinds that are read from it', async () => {
  const store = await testStore();
  try {
    for (const [predicate, kinds] of Object.entries(citedKinds)) {
      const rows = await store.db.query<{ kind: string }>(
        `select kind from unnest($1::text[]) kind where ${predicate}(kind)`,
        [evidenceKinds],
      );
      expect(rows.map(({ kind }) => kind).sort(), predicate).toEqual(kinds.toSorted());
    }
  } finally {
    await store.close();
  }
});
