/**
 * 10,000 histories of a pool with one place: tenants, operators, machines, time and failures, with every action in every stage of a
 * release. After each, nothing is in limbo, a machine that is proven gone is retired, and no ghost fills the pool's place. A share of
 * them is repeated on the real store, which must answer every change as the model did.
 *
 * The same histories in every run; SLIPWAY_PROPERTY_SEED tells others.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { nodeEdges } from '../../src/lifecycle/model/transitions.ts';
import { type TestStore, testStore } from '../support/store.ts';
import { throwing } from './support/random.ts';
import { ask, happen, rest } from './support/releases/events.ts';
import { Broken, History, type Rules, stages } from './support/releases/history.ts';
import { replayed } from './support/releases/replay.ts';

const { SLIPWAY_PROPERTY_SEED } = process.env;
const seed = Number(SLIPWAY_PROPERTY_SEED ?? 21);
const count = 10_000;
const mostEvents = 60;
const inStore = 80;

interface Told {
  history: History;
  broken: string | null;
}

function tell(index: number, edges: Rules['nodeEdges'] = nodeEdges, seen?: (history: History) => void): Told {
  const dice = throwing(seed, index);
  const history = new History({ nodeEdges: edges, reuse: dice.chance(0.4) });
  const events = 10 + Math.floor(dice.next() * mostEvents);
  try {
    ask(history);
    for (let event = 0; event < events; event++) {
      happen(history, dice);
      seen?.(history);
      const broken = history.broken();
      if (broken) return { history, broken };
    }
    rest(history);
    return { history, broken: history.broken() ?? history.limbo() };
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    return { history, broken: error.message };
  }
}

const complaint = (index: number, { history, broken }: Told) =>
  `SLIPWAY_PROPERTY_SEED=${seed}, history ${index}: ${broken}\n${history.story.join('\n')}\n${history.standing()}`;

test(`${count} histories leave no ghost and nothing in limbo (seed ${seed})`, { timeout: 120_000 }, () => {
  const met = new Map<string, number>();
  const note = (what: string) => met.set(what, (met.get(what) ?? 0) + 1);
  for (let index = 0; index < count; index++) {
    const told = tell(index, nodeEdges, ({ allocation, node }) => {
      const release = allocation?.work?.kind === 'release' ? allocation.work : undefined;
      if (release && node) note(`${stages.release[release.stage]} ${node.status}`);
    });
    if (told.broken) expect.fail(complaint(index, told));
    for (const { entity, to, by, moved } of told.history.calls) if (moved) note(`${entity} → ${to} by ${by}`);
  }
  // They were worth something: a release was met in each of its stages with its machine set aside, and every outcome came about.
  for (const stage of stages.release.slice(1)) expect(met.get(`${stage} quarantined`), stage).toBeGreaterThan(0);
  for (const what of ['node → retired by proof', 'node → ready by proof', 'allocation → released by proof'])
    expect(met.get(what), what).toBeGreaterThan(100);
  expect(met.get('allocation → released by force-release')).toBeGreaterThan(10);
});

test('without the way from quarantine by proof, histories end in limbo', () => {
  const edges = nodeEdges.filter(({ from, to }) => !(from === 'quarantined' && to === 'retired'));
  const broken = Array.from({ length: 500 }, (_, index) => tell(index, edges).broken).filter(Boolean);
  expect(broken.some((what) => what?.includes('retiring a machine that is proven gone was refused'))).toBe(true);
});

describe('on the real store', () => {
  let store: TestStore;
  beforeAll(async () => {
    store = await testStore();
  });
  afterAll(() => store.close());

  test(`${inStore} of them come to the same, change by change`, { timeout: 300_000 }, async () => {
    const histories = Array.from({ length: inStore }, (_, index) => tell(index).history);
    const differing = await replayed(store.db, histories);
    expect(differing.slice(0, 3), `seed ${seed}`).toEqual([]);
  });
});
