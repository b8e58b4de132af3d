/** A row rebuilt from its facts equals the stored row, even after concurrent histories. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { moment } from '../../base/clock.ts';
import type { Database } from '../pg/database.ts';
import { readNodeRow } from '../testing/fleet.ts';
import { type Act, act, acts, createSubjects, type Histories, openHistories } from '../testing/histories.ts';
import { rebuildAllocations, rebuildNodes } from './projection.ts';

let store: TestStore;
let db: Database;
let histories: Histories;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  histories = await openHistories(db);
});

afterAll(() => store.close());

const listActs = (kind: Act['kind'], ...choices: number[]): Act[] =>
  choices.map((choice) => ({ kind, subject: 0, choice }));
/** Events that random histories contain in most runs, but not in all. */
const fixedHistory: Act[] = [
  ...(['join', 'register', 'report', 'bind'] as const).flatMap((kind) => listActs(kind, 2)),
  ...listActs('assign', 1),
];
const retiringHistory = listActs('move', 1, 2, 2);

test('rebuilds every row from its facts after random concurrent histories', async () => {
  await fc.assert(
    fc.asyncProperty(acts, fc.integer({ min: 1, max: 4 }), async (history, atOnce) => {
      const subjects = await createSubjects(histories);
      const { nodes, allocations } = subjects;
      for (let at = 0; at < history.length; at += atOnce)
        await Promise.all(history.slice(at, at + atOnce).map((each) => act(histories, subjects, each)));
      const nodeIds = nodes.map((node) => node.node_id);
      expect(await rebuildNodes(db, nodeIds)).toEqual(
        await db.query('select * from nodes where node_id = any($1) order by node_id', [nodeIds]),
      );
      const allocationIds = allocations.map((allocation) => allocation.allocation_id);
      expect(await rebuildAllocations(db, allocationIds)).toEqual(
        await db.query('select * from allocations where allocation_id = any($1) order by allocation_id', [
          allocationIds,
        ]),
      );
    }),
    { numRuns: 30, examples: [fixedHistory, retiringHistory].map((history): [Act[], number] => [history, 1]) },
  );
  const kinds = await db.query<{ kind: string }>(`select distinct kind from evidence where data ? 'set'`);
  // The histories contain these events.
  expect(kinds.map((row) => row.kind)).toEqual(
    expect.arrayContaining([
      'node.bound',
      'node.claim',
      'node.joined',
      'node.restarted',
      'node.retired',
      'allocation.failed',
    ]),
  );
  expect((await rebuildNodes(db)).length).toBeGreaterThan(80);
}, 300_000);

test('a row that was changed without a transition differs from its rebuilt row', async () => {
  const node = await histories.fleet.node('ready');
  await db.query('update nodes set endpoint = $2, status_since = $3 where node_id = $1', [
    node.node_id,
    'http://elsewhere',
    moment(0),
  ]);
  const [rebuilt] = await rebuildNodes(db, [node.node_id]);
  expect(rebuilt).toMatchObject({ endpoint: null, status: 'ready' });
  expect(await readNodeRow(db, node.node_id)).not.toEqual(rebuilt);
});
