/** Tests `anyOf` with a plan that PostgreSQL made while the table was small. */
import { expect, it } from 'vitest';
import { testStore } from '../../../test/support/store.ts';
import { anyOf } from './by-ids.ts';

interface PlanNode {
  'Node Type': string;
  'Relation Name'?: string;
  'Actual Loops': number;
  Filter?: string;
  Plans?: PlanNode[];
}

const listPlanNodes = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(listPlanNodes)];

it('scans a table at most once for a long list, with a plan from when the table was small', async () => {
  const store = await testStore();
  const client = await store.db.connect('planner');
  try {
    await client.query('create temporary table thing (id text primary key, name text)');
    await client.query(`insert into thing select 'a' || i, 'first' from generate_series(1, 20) i`);
    await client.query('analyze thing');
    await client.query('set plan_cache_mode = force_generic_plan');
    await client.query(`prepare read_things(text[]) as select name from thing where ${anyOf('id', '$1::text[]')}`);
    const ids = Array.from({ length: 500 }, (_, index) => `b${index}`);
    const list = `'{${ids.join(',')}}'`;
    await client.query(`execute read_things(${list})`);
    await client.query(`insert into thing select 'b' || i, 'second' from generate_series(0, 4999) i`);
    const { rows } = await client.query(`explain (analyze, format json) execute read_things(${list})`);
    const [{ Plan: plan }] = rows[0]['QUERY PLAN'] as [{ Plan: PlanNode & { 'Actual Rows': number } }];
    expect(plan['Actual Rows']).toBe(ids.length);
    const scans = listPlanNodes(plan).filter((part) => part['Relation Name'] && part['Node Type'] === 'Seq Scan');
    for (const part of scans) expect(part, 'a sequential scan runs once').toMatchObject({ 'Actual Loops': 1 });
    expect(scans.filter(({ Filter }) => Filter !== undefined)).toEqual([]);
  } finally {
    await client.end();
    await store.close();
  }
});
