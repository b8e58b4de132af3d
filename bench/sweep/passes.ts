/**
 * Measures the passes of one rule. Several fleets are measured in turn, so that other load on the
 * machine affects all of them alike.
 */
import { now, secondsLater, systemClock } from '../../src/base/clock.ts';
import type { NodeId } from '../../src/base/ids.ts';
import { scanSuspects } from '../../src/store/supervision/silent-nodes.ts';
import { sweepRegistry } from '../../src/sweeps/registry.ts';
import type { SweepServices } from '../../src/sweeps/runner/services.ts';
import {
  allocate,
  bareInsert,
  bareUpdate,
  copyEvidence,
  countWithStatus,
  type MeasuredRule,
  makeDue,
  resetNodes,
} from './rules.ts';
import type { Cost, Stopwatch } from './work.ts';

export interface Fleet {
  idle: number;
  services: SweepServices;
  inFlight: NodeId[];
}

/**
 * The kinds of measurement:
 * - `pass`: a pass with due nodes
 * - `empty`: a pass without due nodes
 * - `bare`: the bare UPDATE of the same rows
 * - `recorded`: the bare UPDATE with inserts of the same evidence and boot samples
 * - `reading`: for rules about silence, the scan of all heartbeats, which is rare and shared
 */
export type Act = 'pass' | 'empty' | 'bare' | 'recorded' | 'reading';
export type PassTimes = Record<Act, Cost[]>;

const actsOf = (rule: MeasuredRule): Act[] => [
  'pass',
  'empty',
  'bare',
  'recorded',
  ...(rule.dueBy === 'silence' ? (['reading'] as const) : []),
];

/** After this time a rule is not measured again, so that slow rules do not prolong the run. */
const maxRuleMs = 20_000;
const minTurns = 3;

interface Round {
  fleet: Fleet;
  rule: MeasuredRule;
  ids: NodeId[];
  stopwatch: Stopwatch;
}

/** The rule's sweep as in the registry, but with these suspects instead of a scan. */
function sweepOf({ fleet, rule }: Round, suspects: NodeId[]) {
  const givenSuspects = {
    list: async () => suspects.map((node_id) => ({ node_id, due_ms: 0 })),
    everySeconds: () => 1,
  };
  const sweep = sweepRegistry({ ...fleet.services, suspects: givenSuspects }).find(({ name }) => name === rule.name);
  if (!sweep) throw new Error(`there is no sweep ${rule.name}`);
  return sweep;
}

async function scanBeats({ fleet, ids }: Round, at: Date): Promise<void> {
  const { db, ingest } = fleet.services;
  const suspects = await scanSuspects(db, secondsLater(at, -ingest.tightestStaleSeconds() / 2), at);
  if (suspects.length !== ids.length)
    throw new Error(`the scan found ${suspects.length} silent nodes, expected ${ids.length}`);
}

async function measureAct(round: Round, act: Act): Promise<Cost> {
  const { fleet, rule, ids, stopwatch } = round;
  const { db, clock, ingest } = fleet.services;
  // Without a recent check of ingestion, rules decide nothing.
  await ingest.check();
  if (act === 'empty') return stopwatch(() => sweepOf(round, []).run(now(clock)));
  await makeDue(db, rule, ids, now(clock));
  await ingest.check();
  const at = now(clock);
  const sweep = sweepOf(round, ids);
  const work: Record<Exclude<Act, 'empty'>, () => Promise<unknown>> = {
    pass: () => sweep.run(at),
    bare: () => db.transaction((tx) => bareUpdate(tx, rule, ids, at)),
    recorded: () =>
      db.transaction(async (tx) => {
        await bareUpdate(tx, rule, ids, at);
        await bareInsert(tx);
      }),
    reading: () => scanBeats(round, at),
  };
  const spent = await stopwatch(work[act]);
  const moved = act === 'reading' ? ids.length : await countWithStatus(db, ids, rule.to);
  if (moved !== ids.length) throw new Error(`${rule.name} (${act}): ${moved} of ${ids.length} nodes became ${rule.to}`);
  if (act === 'pass') await copyEvidence(db, ids, at);
  await resetNodes(db, rule, ids, now(clock));
  return spent;
}

/** The `turn`th group of nodes in flight, cyclically. */
const groupOf = (inFlight: NodeId[], turn: number, due: number) => {
  const from = (turn % Math.floor(inFlight.length / due)) * due;
  return inFlight.slice(from, from + due);
};

export async function measurePasses(
  fleets: Fleet[],
  rule: MeasuredRule,
  { due, samples, stopwatch }: { due: number; samples: number; stopwatch: Stopwatch },
): Promise<PassTimes[]> {
  const results = fleets.map((): PassTimes => ({ pass: [], empty: [], bare: [], recorded: [], reading: [] }));
  for (const { services, inFlight } of fleets) {
    if (rule.allocated) await allocate(services.db, inFlight, now(services.clock));
    await resetNodes(services.db, rule, inFlight, now(services.clock));
    await services.db.query('vacuum nodes');
  }
  const startedMs = systemClock.monotonicMs();
  // The first round warms caches and connections and is not counted.
  for (let turn = 0; turn <= samples; turn++) {
    if (turn > minTurns && systemClock.monotonicMs() - startedMs > maxRuleMs) break;
    const acts = actsOf(rule);
    for (const act of turn % 2 ? acts.toReversed() : acts) {
      for (const [place, fleet] of fleets.entries()) {
        const ids = groupOf(fleet.inFlight, turn, due);
        const spent = await measureAct({ fleet, rule, ids, stopwatch }, act);
        if (turn > 0) results[place]?.[act].push(spent);
      }
    }
  }
  return results;
}
