/**
 * 10,000 random histories of a pool with one slot: tenants, operators, machines, time and failures,
 * with every action in every stage of a release. Afterwards nothing is stuck, a machine that is
 * proven gone is retired, and no dead node occupies the slot. A share of the histories is repeated
 * on the real store, which must accept and refuse the same transitions.
 *
 * The histories are the same in every run; SLIPWAY_PROPERTY_SEED selects others.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { nodeEdges } from '../../src/lifecycle/model/transitions.ts';
import { type TestStore, testStore } from '../support/store.ts';
import { seededRandom } from './support/random.ts';
import { randomEvent, requestMachine, settle } from './support/releases/events.ts';
import { History, type Rules, stages, UnexpectedRefusal } from './support/releases/history.ts';
import { replayed } from './support/releases/replay.ts';

const { SLIPWAY_PROPERTY_SEED } = process.env;
const seed = Number(SLIPWAY_PROPERTY_SEED ?? 21);
const count = 10_000;
const maxEvents = 60;
const inStore = 80;

interface Outcome {
  history: History;
  broken: string | null;
}

function run(index: number, edges: Rules['nodeEdges'] = nodeEdges, seen?: (history: History) => void): Outcome {
  const random = seededRandom(seed, index);
  const history = new History({ nodeEdges: edges, reuse: random.chance(0.4) });
  const events = 10 + Math.floor(random.next() * maxEvents);
  try {
    requestMachine(history);
    for (let event = 0; event < events; event++) {
      randomEvent(history, random);
      seen?.(history);
      const broken = history.violation();
      if (broken) return { history, broken };
    }
    settle(history);
    return { history, broken: history.violation() ?? history.settledViolation() };
  } catch (error) {
    if (!(error instanceof UnexpectedRefusal)) throw error;
    return { history, broken: error.message };
  }
}

const messageOf = (index: number, { history, broken }: Outcome) =>
  `SLIPWAY_PROPERTY_SEED=${seed}, history ${index}: ${broken}\n${history.log.join('\n')}\n${history.statuses()}`;

test(`${count} histories leave no dead node and nothing stuck (seed ${seed})`, { timeout: 120_000 }, () => {
  const met = new Map<string, number>();
  const note = (what: string) => met.set(what, (met.get(what) ?? 0) + 1);
  for (let index = 0; index < count; index++) {
    const outcome = run(index, nodeEdges, ({ allocation, node }) => {
      const release = allocation?.work?.kind === 'release' ? allocation.work : undefined;
      if (release && node) note(`${stages.release[release.stage]} ${node.status}`);
    });
    if (outcome.broken) expect.fail(messageOf(index, outcome));
    for (const { entity, to, by, moved } of outcome.history.calls) if (moved) note(`${entity} → ${to} by ${by}`);
  }
  // Every stage of a release was seen with its node in quarantine, and every outcome was reached.
  for (const stage of stages.release.slice(1)) expect(met.get(`${stage} quarantined`), stage).toBeGreaterThan(0);
  for (const what of ['node → retired by proof', 'node → ready by proof', 'allocation → released by proof'])
    expect(met.get(what), what).toBeGreaterThan(100);
  expect(met.get('allocation → released by force-release')).toBeGreaterThan(10);
});

test('without the edge from quarantine by proof, histories get stuck', () => {
  const edges = nodeEdges.filter(({ from, to }) => !(from === 'quarantined' && to === 'retired'));
  const broken = Array.from({ length: 500 }, (_, index) => run(index, edges).broken).filter(Boolean);
  expect(broken.some((what) => what?.includes('retiring a machine that is proven gone was refused'))).toBe(true);
});

describe('on the real store', () => {
  let store: TestStore;
  beforeAll(async () => {
    store = await testStore();
  });
  afterAll(() => store.close());

  test(`${inStore} of them give the same outcomes, transition by transition`, { timeout: 300_000 }, async () => {
    const histories = Array.from({ length: inStore }, (_, index) => run(index).history);
    const differing = await replayed(store.db, histories);
    expect(differing.slice(0, 3), `seed ${seed}`).toEqual([]);
  });
});
