/**
 * For a thousand random moments, the rebuilt state of a node equals the state that was read at that
 * moment.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { moment } from '../../base/clock.ts';
import type { NodeState } from '../../contract/node.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import type { Database } from '../pg/database.ts';
import { readNodes } from '../rows/nodes.ts';
import { act, acts, createSubjects, type Histories, openHistories } from '../testing/histories.ts';
import { rebuildNodesAt } from './time-travel.ts';

const moments = 1_000;
const historiesPerRound = 8;
const maxRounds = 5;

let store: TestStore;
let db: Database;
let histories: Histories;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  histories = await openHistories(db);
});

afterAll(() => store.close());

type StateNow = Omit<NodeState, 'at' | 'cursor'>;

/**
 * Reads the nodes as the API returns them now, in the form of a rebuilt state: without `occupancy`,
 * `agent_version` and `last_seen_at`, and with only the status of `reported`.
 */
async function readStatesNow(ids: string[]): Promise<Map<string, StateNow>> {
  const nodes = await readNodes(db, ids, wholeFleet);
  return new Map(
    nodes.map(({ occupancy: _, agent_version: __, last_seen_at: ___, reported, ...node }) => [
      node.node_id,
      { ...node, reported_status: (reported?.status as string | null | undefined) ?? null },
    ]),
  );
}

const withoutMoment = ({ at: _, cursor: __, ...state }: NodeState): StateNow => state;

/** The states that the nodes had throughout the time from `since` to `until`, in milliseconds. */
interface Span {
  since: number;
  until: number;
  states: Map<string, StateNow>;
}

/** Random histories may lack variety: the test needs several statuses and an allocated node. */
function isVaried(spans: Span[]): boolean {
  const nodes = spans.flatMap(({ states }) => [...states.values()]);
  return new Set(nodes.map(({ status }) => status)).size > 5 && nodes.some(({ allocation_id }) => allocation_id);
}

async function recordHistories(recorded: Span[]): Promise<void> {
  await fc.assert(
    fc.asyncProperty(acts, fc.infiniteStream(fc.integer({ min: 1, max: 5_000 })), async (history, pauses) => {
      const subjects = await createSubjects(histories);
      const { fleet } = histories;
      const ids = subjects.nodes.map(({ node_id }) => node_id);
      for (const nextAct of history) {
        await act(histories, subjects, nextAct);
        const since = fleet.now().getTime();
        await fleet.clock.advance(pauses.next().value);
        recorded.push({ since, until: fleet.now().getTime(), states: await readStatesNow(ids) });
      }
    }),
    { numRuns: historiesPerRound },
  );
}

test('rebuilds the state that was read at a random moment of a random history', async () => {
  const recorded: Span[] = [];
  for (let round = 0; round < maxRounds && !isVaried(recorded); round += 1) await recordHistories(recorded);
  expect(isVaried(recorded)).toBe(true);
  const samples = fc.sample(
    fc.record({
      span: fc.nat(recorded.length - 1),
      // Each history has three nodes.
      node: fc.nat(2),
      fraction: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
    moments,
  );
  const wanted = samples.map(({ span, node, fraction }) => {
    const { since, until, states } = recorded[span] ?? { since: 0, until: 0, states: new Map<string, StateNow>() };
    const expected = [...states.values()][node];
    return { id: expected?.node_id ?? '', at: moment(Math.round(since + fraction * (until - since))), expected };
  });
  const past = await rebuildNodesAt(db, wanted);
  for (const [index, { id, at, expected }] of wanted.entries()) {
    const rebuilt = past[index];
    expect(rebuilt && withoutMoment(rebuilt.state), `${id} at ${at.toISOString()}`).toEqual(expected);
  }
});

test('returns undefined for a moment before the node was created', async () => {
  const node = await histories.fleet.node('ready');
  const [before, after] = await rebuildNodesAt(db, [
    { id: node.node_id, at: moment(node.created_at.getTime() - 1) },
    { id: node.node_id, at: moment(node.created_at.getTime()) },
  ]);
  expect(before).toBeUndefined();
  expect(after?.state).toMatchObject({ node_id: node.node_id, status: 'provisioning' });
});
