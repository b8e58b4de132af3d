/** Builders for histories, with defaults for everything that a test does not set. */
import { moment, secondsLater } from '../../../base/clock.ts';
import { defaultBrakePolicy, defaultBrakeSettings } from '../../brake/brake.ts';
import type { DifferenceKind } from '../difference.ts';
import type { History, RecordedAbsence, RecordedBoot, ReplayPolicy } from '../history.ts';
import { replaySteps, replayTotal } from '../replay.ts';

export const start = moment(Date.UTC(2030, 0, 1));
export const at = (seconds: number) => secondsLater(start, seconds);

export const policy = (overrides: Partial<ReplayPolicy> = {}): ReplayPolicy => ({
  mode: 'enforce',
  budgets: {},
  server: {},
  heartbeat: {},
  brake: defaultBrakePolicy,
  external: false,
  ...overrides,
});

export const history = (inForce: ReplayPolicy, overrides: Partial<History> = {}): History => ({
  pool: 'build',
  since: start,
  until: at(1e6),
  generations: [{ generation: 1, created_at: at(-1e6), policy: inForce }],
  boots: [],
  absences: [],
  changes: [],
  held: [],
  unenforced_silences: [],
  final_counts: {},
  brake: defaultBrakeSettings,
  truncated: { boots: false, changes: false },
  ...overrides,
});

export const replay = (past: History, proposed: ReplayPolicy) =>
  replayTotal(past, proposed, [...replaySteps(past, proposed)]);

let machines = 0;
/** The ids of a new machine. */
export const ids = () => {
  machines++;
  return { node_id: `node_${machines}`, node_instance_id: `inst_${machines}` };
};

export const boot = (seconds: number, overrides: Partial<RecordedBoot> = {}): RecordedBoot => ({
  ...ids(),
  generation: 1,
  phase: 'provision',
  started_at: start,
  ended_at: at(seconds),
  outcome: 'completed',
  budget_seconds: 720,
  budget_source: 'default',
  requested_seconds: null,
  events: [],
  given_up: null,
  ready_by_rule: false,
  watched_until: at(seconds),
  ...overrides,
});

/** The verdict that failed a boot after so many seconds. */
export const failedVerdict = (
  seconds: number,
  overrides: Partial<RecordedBoot['given_up']> = {},
): RecordedBoot['given_up'] => ({
  at: at(seconds),
  reason: 'provisioning timed out',
  deadline_at: at(seconds),
  last_seen_at: null,
  stale_seconds: null,
  ...overrides,
});

export const absence = (overrides: Partial<RecordedAbsence> = {}): RecordedAbsence => ({
  ...ids(),
  generation: 1,
  at: at(30),
  by: 'liveness',
  reason: 'no heartbeat arrived for 30 s',
  stale_seconds: 30,
  budget_seconds: 3600,
  moved_seconds: 0,
  ended: false,
  returned_at: null,
  given_up: null,
  rescued_at: null,
  interrupted_at: null,
  ...overrides,
});

/** The differences as triples: kind, the verdict there would have been, and its time. */
export const differencesOf = (past: History, proposed: ReplayPolicy) =>
  replay(past, proposed).differences.map(({ kind, would_be }) => [kind, would_be.verdict, would_be.at?.getTime()]);

/** The result of `differencesOf` where a test expects exactly one. */
export const oneDifference = (kind: DifferenceKind, verdict: string, seconds: number) => [
  [kind, verdict, at(seconds).getTime()],
];

/** The questions that the record cannot answer, as pairs of kind and count. */
export const unknownsOf = (past: History, proposed: ReplayPolicy) =>
  replay(past, proposed).unknowns.map(({ kind, count }) => [kind, count]);

export const provisionPolicy = (provision_seconds: number, otherBudgets: ReplayPolicy['budgets'] = {}) =>
  policy({ budgets: { provision_seconds, ...otherBudgets } });
