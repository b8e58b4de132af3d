/** What an explanation cites of a machine to which very much happened. */
import { expect, it } from 'vitest';
import { testStore } from '../../test/support/store.ts';
import { until } from '../../test/support/until.ts';
import { secondsLater } from '../base/clock.ts';
import type { AllocationId } from '../base/ids.ts';
import { evidenceFor } from './because.ts';
import type { Queryable } from './database.ts';
import { type Fact, recordEvidence } from './evidence.ts';
import { testFleet } from './testing/fleet.ts';

it('cites what was found, however often the deadline was moved since, and the last of those moves', async () => {
  const store = await testStore();
  try {
    const fleet = await testFleet(store.db);
    const { node_id, node_instance_id, status } = await fleet.node('starting');
    const kinds: Fact['kind'][] = ['node.would_have', ...Array<Fact['kind']>(20).fill('node.deadline_moved')];
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
    const ofAFormerLife: Fact = {
      ...(facts[0] as Fact),
      kind: 'probe.answered',
      at: secondsLater(fleet.now(), -86_400),
    };
    await store.db.transaction((tx) => recordEvidence(tx, [...facts, ofAFormerLife]));
    const deadline_at = secondsLater(fleet.now(), 60).toISOString();
    const told = await until('the facts to be settled', async () => {
      const cited = await evidenceFor(store.db, { node_id, node_instance_id, status, deadline_at }, null, null);
      const found = cited.filter(
        ({ kind, summary }) => kind === 'probe.answered' || facts.some((fact) => fact.summary === summary),
      );
      return found.length > 0 ? found : undefined;
    });
    expect(told.map(({ summary }) => summary)).toEqual(['node.deadline_moved 20', 'node.would_have 0']);
  } finally {
    await store.close();
  }
});

interface Plan {
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
}

const literal = (value: unknown) => (Array.isArray(value) ? `'{${value.join(',')}}'` : `'${value}'`);

/** Without fresh statistics, as when a tenant has just begun to allocate: plans are kept, so this is the usual case. */
it('reads no more for a tenant with very many allocations', async () => {
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
    const facts = Array.from({ length: 9_000 }, (_, index): Fact => {
      const kind = kinds[index % kinds.length] as Fact['kind'];
      return {
        ...{ at: fleet.now(), layer: 'workflow', kind, summary: 'x' },
        allocation_id: `alloc_many_${1 + Math.trunc(index / 3)}` as AllocationId,
      };
    });
    for (let from = 0; from < facts.length; from += 1_000)
      await store.db.transaction((tx) => recordEvidence(tx, facts.slice(from, from + 1_000)));

    await store.db.query('set plan_cache_mode = force_generic_plan');
    let statements = 0;
    const blocksReadFor = async (tenant: string | null): Promise<number> => {
      let blocks = 0;
      const counting: Queryable = {
        ...store.db,
        query: async (text, values) => {
          const name = `counted_${++statements}`;
          await store.db.query(`prepare ${name} as ${text}`);
          const [row] = await store.db.query<{ 'QUERY PLAN': { Plan: Plan }[] }>(
            `explain (analyze, buffers, format json) execute ${name} (${(values ?? []).map(literal).join(', ')})`,
          );
          const plan = row?.['QUERY PLAN'][0]?.Plan;
          blocks += (plan?.['Shared Hit Blocks'] ?? 0) + (plan?.['Shared Read Blocks'] ?? 0);
          return [];
        },
      };
      await evidenceFor(counting, { ...node, deadline_at: null }, tenant, null);
      return blocks;
    };
    const ofAll = await blocksReadFor(null);
    expect(ofAll).toBeGreaterThan(0);
    expect(await blocksReadFor('acme')).toBeLessThan(1.5 * ofAll);
  } finally {
    await store.close();
  }
});
