/**
 * Runs 10,000 random histories of a pool with one slot. Tenants, operators, machines, deadlines and
 * failures act in every stage of a release. Afterwards nothing is stuck, a machine that is proven
 * gone is retired, and no dead node occupies the slot. Some of the histories are repeated on the
 * real store, which must accept and refuse the same transitions.
 *
 * The histories are the same in every run; SLIPWAY_PROPERTY_SEED selects others.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { nodeEdges } from '../../src/lifecycle/model/transitions.ts';
import { type TestStore, testStore } from '../support/store.ts';
import { seededRandom } from './support/random.ts';
import { randomEvent, requestMachine, settle } from './support/releases/events.ts';
import { History, type Rules, stages, UnexpectedRefusal } from './support/releases/history.ts';
import { findReplayDifferences } from './support/releases/replay.ts';

const { SLIPWAY_PROPERTY_SEED } = process.env;
const seed = Number(SLIPWAY_PROPERTY_SEED ?? 21);
const historyCount = 10_000;
const maxEvents = 60;
const storeCount = 80;

interface Outcome {
  history: History;
  violation: string | null;
}

function run(index: number, edges: Rules['nodeEdges'] = nodeEdges, onEvent?: (history: History) => void): Outcome {
  const random = seededRandom(seed, index);
  const history = new History({ nodeEdges: edges, reuse: random.chance(0.4) });
  const eventCount = 10 + Math.floor(random.next() * maxEvents);
  try {
    requestMachine(history);
    for (let event = 0; event < eventCount; event++) {
      randomEvent(history, random);
      onEvent?.(history);
      const violation = history.findViolation();
      if (violation) return { history, violation };
    }
    settle(history);
    return { history, violation: history.findViolation() ?? history.findSettledViolation() };
  } catch (error) {
    if (!(error instanceof UnexpectedRefusal)) throw error;
    return { history, violation: error.message };
  }
}

const describeViolation = (index: number, { history, violation }: Outcome) =>
  `SLIPWAY_PROPERTY_SEED=${seed}, history ${index}: ${violation}\n${history.log.join('\n')}\n${history.statuses()}`;

test(`${historyCount} histories leave no dead node in the slot and nothing stuck (seed ${seed})`, {
  timeout: 120_000,
}, () => {
  const counts = new Map<string, number>();
  const count = (name: string) => counts.set(name, (counts.get(name) ?? 0) + 1);
  for (let index = 0; index < historyCount; index++) {
    const outcome = run(index, nodeEdges, ({ allocation, node }) => {
      const release = allocation?.work?.kind === 'release' ? allocation.work : undefined;
      if (release && node) count(`${stages.release[release.stage]} ${node.status}`);
    });
    if (outcome.violation) expect.fail(describeViolation(index, outcome));
    for (const { entity, to, by, moved } of outcome.history.calls) if (moved) count(`${entity} → ${to} by ${by}`);
  }
  // The histories quarantined a node in every stage of a release, and reached every outcome.
  for (const stage of stages.release.slice(1)) expect(counts.get(`${stage} quarantined`), stage).toBeGreaterThan(0);
  for (const change of ['node → retired by proof', 'node → ready by proof', 'allocation → released by proof'])
    expect(counts.get(change), change).toBeGreaterThan(100);
  expect(counts.get('allocation → released by force-release')).toBeGreaterThan(10);
});

test('histories break if the model has no edge that retires a quarantined machine that is proven gone', () => {
  const edges = nodeEdges.filter(({ from, to }) => !(from === 'quarantined' && to === 'retired'));
  const violations = Array.from({ length: 500 }, (_, index) => run(index, edges).violation);
  expect(
    violations.some((violation) => violation?.includes('retiring a machine that is proven gone was refused')),
  ).toBe(true);
});

describe('the real store', () => {
  let store: TestStore;
  beforeAll(async () => {
    store = await testStore();
  });
  afterAll(() => store.close());

  test(`accepts and refuses the same transitions as the model in ${storeCount} histories`, {
    timeout: 300_000,
  }, async () => {
    const histories = Array.from({ length: storeCount }, (_, index) => run(index).history);
    const differences = await findReplayDifferences(store.db, histories);
    expect(differences.slice(0, 3), `seed ${seed}`).toEqual([]);
  });
});
