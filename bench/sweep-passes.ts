/** Times the passes of one rule on several fleets in turn, so that whatever else the machine does hits all of them alike. */
import { now } from '../src/base/clock.ts';
import type { NodeId } from '../src/base/ids.ts';
import type { SweepServices } from '../src/sweeps/services.ts';
import type { Sweep } from '../src/sweeps/sweep.ts';
import { secondsOf } from './measure.ts';
import { backInFlight, bareInsert, bareUpdate, countAt, fallDue, keepFacts, type MeasuredRule } from './sweep-rules.ts';

export interface Fleet {
  idle: number;
  services: SweepServices;
  sweeps: Sweep[];
  inFlight: NodeId[];
}

const acts = ['pass', 'bare', 'told', 'empty'] as const;
/** In milliseconds: one pass; the bare UPDATE; with the same evidence inserted; and a pass that finds nobody. */
export type Timings = Record<(typeof acts)[number], number[]>;

const noTimings = (): Timings => ({ pass: [], bare: [], told: [], empty: [] });

type Act = (typeof acts)[number];

async function timed(fleet: Fleet, rule: MeasuredRule, sweep: Sweep, ids: NodeId[], act: Act): Promise<number> {
  const { db, clock } = fleet.services;
  if (act !== 'empty') await fallDue(db, rule, ids, now(clock));
  const moment = now(clock);
  const work: Record<Act, () => Promise<unknown>> = {
    pass: () => sweep.run(moment),
    empty: () => sweep.run(moment),
    bare: () => db.transaction((tx) => bareUpdate(tx, rule, ids, moment)),
    told: () =>
      db.transaction(async (tx) => {
        await bareUpdate(tx, rule, ids, moment);
        await bareInsert(tx);
      }),
  };
  const ms = 1000 * (await secondsOf(work[act]));
  if (act === 'empty') return ms;
  const moved = await countAt(db, ids, rule.to);
  if (moved !== ids.length) throw new Error(`${rule.name} (${act}): ${moved} of ${ids.length} came to be ${rule.to}`);
  if (act === 'pass') await keepFacts(db, ids, moment);
  await backInFlight(db, rule, ids, now(clock));
  return ms;
}

/** The `turn`th so many of those in flight, and after the last ones the first again. */
const groupOf = (inFlight: NodeId[], turn: number, due: number) => {
  const from = (turn % Math.floor(inFlight.length / due)) * due;
  return inFlight.slice(from, from + due);
};

export async function timePasses(
  fleets: Fleet[],
  rule: MeasuredRule,
  { due, samples }: { due: number; samples: number },
): Promise<Timings[]> {
  const results = fleets.map(() => ({ timings: noTimings() }));
  for (const { services } of fleets) await services.db.query('vacuum nodes');
  // The first round warms caches and connections and is not counted.
  for (let round = 0; round <= samples; round++) {
    const order = round % 2 ? acts.toReversed() : acts;
    for (const act of order) {
      for (const [place, fleet] of fleets.entries()) {
        const sweep = fleet.sweeps.find(({ name }) => name === rule.name);
        if (!sweep) throw new Error(`there is no sweep ${rule.name}`);
        const ms = await timed(fleet, rule, sweep, groupOf(fleet.inFlight, round, due), act);
        if (round > 0) results[place]?.timings[act].push(ms);
      }
    }
  }
  return results.map(({ timings }) => timings);
}
