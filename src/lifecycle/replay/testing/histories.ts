/** Builders for histories, with defaults for everything that a test does not set. */
import { moment, secondsLater } from '../../../base/clock.ts';
import { defaultBrakePolicy, defaultBrakeSettings } from '../../brake/brake.ts';
import type { DifferenceKind } from '../difference.ts';
import type { History, RecordedAbsence, RecordedBoot, ReplayPolicy } from '../history.ts';
import { replaySteps, replayTotal } from '../replay.ts';

export const start = moment(Date.UTC(2030, 0, 1));
export const at = (seconds: number) => secondsLater(start, seconds);

export type Given = Partial<Omit<ReplayPolicy, 'budgets'>> & { budgets?: ReplayPolicy['budgets'] };
export const policy = (given: Given = {}): ReplayPolicy => ({
  mode: 'enforce',
  budgets: {},
  server: {},
  heartbeat: {},
  brake: defaultBrakePolicy,
  external: false,
  ...given,
});

export const history = (inForce: ReplayPolicy, given: Partial<History> = {}): History => ({
  pool: 'build',
  since: start,
  until: at(1e6),
  generations: [{ generation: 1, created_at: at(-1e6), policy: inForce }],
  boots: [],
  absences: [],
  changes: [],
  held: [],
  unenforced_silences: [],
  standing: {},
  brake: defaultBrakeSettings,
  cut: { boots: false, changes: false },
  ...given,
});

export const replay = (past: History, proposed: ReplayPolicy) =>
  replayTotal(past, proposed, [...replaySteps(past, proposed)]);

let made = 0;
export const ids = () => {
  made++;
  return { node_id: `node_${made}`, node_instance_id: `inst_${made}` };
};

export const boot = (seconds: number, given: Partial<RecordedBoot> = {}): RecordedBoot => ({
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
  ...given,
});

export const givenUp = (seconds: number, more: Partial<RecordedBoot['given_up']> = {}): RecordedBoot['given_up'] => ({
  at: at(seconds),
  reason: 'provisioning timed out',
  deadline_at: at(seconds),
  last_seen_at: null,
  stale_seconds: null,
  ...more,
});

export const absence = (given: Partial<RecordedAbsence> = {}): RecordedAbsence => ({
  ...ids(),
  generation: 1,
  at: at(30),
  by: 'liveness',
  reason: 'it has been silent for 30 s',
  stale_seconds: 30,
  budget_seconds: 3600,
  moved_seconds: 0,
  ended: false,
  back_at: null,
  given_up: null,
  rescued_at: null,
  over_at: null,
  ...given,
});

export const kinds = (past: History, proposed: ReplayPolicy) =>
  replay(past, proposed).differences.map(({ kind, would_be }) => [kind, would_be.verdict, would_be.at?.getTime()]);
export const found = (kind: DifferenceKind, verdict: string, seconds: number) => [
  [kind, verdict, at(seconds).getTime()],
];
export const untold = (past: History, proposed: ReplayPolicy) =>
  replay(past, proposed).untold.map(({ kind, count }) => [kind, count]);
export const provision = (provision_seconds: number, more: ReplayPolicy['budgets'] = {}) =>
  policy({ budgets: { provision_seconds, ...more } });
