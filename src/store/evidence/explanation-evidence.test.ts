/** The evidence that an explanation cites, also for a machine with very many facts. */
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
import { evidenceFor, explaining } from './explanation-evidence.ts';

it.each([20, 200])(
  'cites a finding although the deadline was moved %i times since, and the last move only',
  async (moves) => {
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
        const evidence = await evidenceFor(
          store.db,
          { node_id, node_instance_id, status, deadline_at },
          wholeFleet,
          null,
        );
        const found = evidence.filter(
          ({ kind, summary }) => kind === 'probe.answered' || facts.some((fact) => fact.summary === summary),
        );
        return found.length > 0 ? found : undefined;
      });
      expect(cited.map(({ summary }) => summary)).toEqual([`node.deadline_moved ${moves}`, 'node.would_have 0']);
    } finally {
      await store.close();
    }
  },
);

/**
 * Without fresh statistics, as when a tenant has just begun to allocate. Plans are kept, so that is
 * common.
 */
it('reads no more blocks for a tenant with very many allocations', async () => {
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
    const blocksReadFor = (visibility: Visibility) =>
      count((counting) => evidenceFor(counting, { ...node, deadline_at: null }, visibility, null));
    const ofAll = await blocksReadFor(wholeFleet);
    expect(await blocksReadFor(tenantOnly('acme'))).toBeLessThan(1.5 * ofAll);
  } finally {
    await store.close();
  }
});

/**
 * With a kind that is never cited, and with one that is cited and that the machine can repeat at
 * will.
 */
it.each(['boot.stage', 'prerequisite.missing'] as const)(
  'reads no more blocks when a machine reported very much (%s)',
  async (kind) => {
    const store = await testStore({ max_connections: 1 });
    try {
      const fleet = await testFleet(store.db);
      const node = await fleet.node('ready');
      const count = blockCounter(store.db);
      // Also for a tenant that owns none of the facts, and for an instance that reported nothing.
      const blocksRead = async () => {
        await until('every fact to be settled', () => areFactsSettled(store.db));
        await store.db.query('analyze evidence');
        const now = { ...node, deadline_at: null };
        const afresh = { ...now, node_instance_id: 'inst_fresh' };
        return [
          await count((counting) => evidenceFor(counting, now, wholeFleet, null)),
          await count((counting) => evidenceFor(counting, now, tenantOnly('acme'), null)),
          await count((counting) => evidenceFor(counting, afresh, wholeFleet, null)),
        ];
      };
      const { node_id, node_instance_id } = node;
      const report = { at: fleet.now(), layer: 'node', kind, summary: 'x'.repeat(200) } as const;
      await recordMany(store.db, 4_000, () => ({ ...report, node_id, node_instance_id }));
      const ofFew = await blocksRead();
      await recordMany(store.db, 16_000, () => ({ ...report, node_id, node_instance_id }));
      for (const [index, blocks] of (await blocksRead()).entries())
        expect(blocks).toBeLessThan(1.5 * (ofFew[index] ?? 0));
    } finally {
      await store.close();
    }
  },
);

it('finds each kind in the index that is read for it', async () => {
  const store = await testStore();
  try {
    for (const [predicate, kinds] of Object.entries(explaining)) {
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
