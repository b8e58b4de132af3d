/** Tests the texts of differences. */
import { describe, expect, test } from 'vitest';
import type { History, ReplayPolicy } from './history.ts';
import {
  absence,
  at,
  boot,
  failedVerdict,
  history,
  ids,
  policy,
  provisionPolicy,
  replay,
  start,
} from './testing/histories.ts';

describe('the text of a difference names both decisions, for', () => {
  /**
   * One line per difference: its rule, the real and the hypothetical decision with their times, and
   * a question mark if it is uncertain.
   */
  const lines = (past: History, ...proposed: ReplayPolicy[]) =>
    proposed.flatMap((each) =>
      replay(past, each).differences.map(({ kind, rule, at: first, was, would_be, sure }) => {
        const clock = (moment: Date | null) => moment && (moment.getTime() - start.getTime()) / 1000;
        const decisions = [was, would_be].map((one) => `${one.verdict} at ${clock(one.at)} (${one.reason})`);
        return `${clock(first)} ${kind} by ${rule}: ${decisions.join(' → ')}${sure ? '' : ' ?'}`;
      }),
    );

  test('boots', () => {
    const boots = [
      boot(700),
      boot(800, { outcome: 'late', given_up: failedVerdict(720) }),
      boot(720, { outcome: 'timed_out', given_up: failedVerdict(720), watched_until: at(1080) }),
      boot(700, { outcome: 'cancelled' }),
      boot(700, { outcome: 'running' }),
      boot(690, { events: [{ at: at(10), what: 'moved', seconds: 60, by_person: true }] }),
    ];
    const start_ups = [
      boot(120, { phase: 'start', budget_seconds: 120, ready_by_rule: true }),
      boot(120, {
        ...{ phase: 'start', budget_seconds: 120, outcome: 'timed_out' },
        given_up: failedVerdict(120, { last_seen_at: at(40), stale_seconds: 30 }),
      }),
    ];
    const policies = [
      provisionPolicy(600, { rescue_seconds: 150, start_seconds: 60 }),
      provisionPolicy(780, { start_seconds: 200 }),
      provisionPolicy(1200, { progress_aware: true }),
    ];
    expect(lines(history(policy(), { boots: [...boots, ...start_ups] }), ...policies)).toMatchInlineSnapshot(`
      [
        "660 boot_given_up by provision-deadline: starting at 690 (it registered after 690 s) → failed at 660 (waited 660 s, budget of 600 s from pool, deadline moved by 60 s; it arrived 30 s later and would have been rescued)",
        "600 boot_given_up by provision-deadline: starting at 700 (it registered after 700 s) → failed at 600 (waited 600 s, budget of 600 s from pool; it arrived 100 s later and would have been rescued)",
        "600 boot_lost by provision-deadline: failed at 720 (provisioning timed out) → failed at 600 (waited 600 s, budget of 600 s from pool; it arrived after its rescue window)",
        "600 stuck_sooner by provision-deadline: failed at 720 (provisioning timed out) → failed at 600 (waited 600 s, budget of 600 s from pool)",
        "600 boot_cut_short by provision-deadline: provisioning at 700 (something else ended it) → failed at 600 (waited 600 s, budget of 600 s from pool; whether it would have arrived is unknown) ?",
        "600 boot_cut_short by provision-deadline: provisioning at 700 (it is still coming up) → failed at 600 (waited 600 s, budget of 600 s from pool; whether it would have arrived is unknown)",
        "60 ready_sooner by stuck-starting: ready at 120 (it sent heartbeats, and its start-up time was over) → ready at 60 (if it sent heartbeats by then (waited 60 s, budget of 60 s from pool)) ?",
        "60 ready_instead by stuck-starting: failed at 120 (provisioning timed out) → ready at 60 (it still sent heartbeats at the end of its start-up time (waited 60 s, budget of 60 s from pool))",
        "720 late_later by provision-deadline: failed at 720 (provisioning timed out) → failed at 780 (waited 780 s, budget of 780 s from pool; it arrived later and would have been rescued)",
        "720 stuck_later by provision-deadline: failed at 720 (provisioning timed out) → failed at 780 (waited 780 s, budget of 780 s from pool)",
        "120 ready_later by stuck-starting: ready at 120 (it sent heartbeats, and its start-up time was over) → ready at 200 (at the latest, unless it reports ready before (waited 200 s, budget of 200 s from pool)) ?",
        "120 stuck_later by start-deadline: failed at 120 (provisioning timed out) → failed at 200 (waited 200 s, budget of 200 s from pool; it was not observed that long, so it is unknown whether it would have arrived; its progress after it was given up is not recorded) ?",
        "720 boot_spared by provision-deadline: failed at 720 (provisioning timed out) → starting at 800 (it registered after 800 s; its progress after it was given up is not recorded) ?",
        "720 stuck_later by provision-deadline: failed at 720 (provisioning timed out) → failed at 1200 (waited 1200 s, budget of 1200 s from pool; it was not observed that long, so it is unknown whether it would have arrived; its progress after it was given up is not recorded) ?",
      ]
    `);
  });

  test('absences', () => {
    const absences = [
      absence({ returned_at: at(62) }),
      absence({ returned_at: at(2000) }),
      absence({ interrupted_at: at(62) }),
      absence({ interrupted_at: at(2000) }),
      absence({ given_up: { at: at(3630), reason: 'it did not come back' } }),
      absence({ given_up: { at: at(3630), reason: 'it did not come back' }, rescued_at: at(4000) }),
      absence({ by: 'goodbye', stale_seconds: null, budget_seconds: null, returned_at: at(4000) }),
    ];
    const policies = [
      policy({ heartbeat: { stale_after_seconds: 90.25 } }),
      policy({ heartbeat: { stale_after_seconds: 15, interval_seconds: 5 } }),
      policy({ budgets: { offline_seconds: 20, rescue_seconds: 100 } }),
      policy({ budgets: { offline_seconds: 7200 } }),
    ];
    expect(lines(history(policy(), { absences }), ...policies)).toMatchInlineSnapshot(`
      [
        "30 silence_spared by liveness: offline at 30 (no heartbeat arrived for 30 s) → ready at null (it returned 32 s after it became offline (allowed: 90.3 s))",
        "30 offline_later by liveness: offline at 30 (no heartbeat arrived for 30 s) → offline at 90.25 (silent for 90.3 s (allowed: 90.3 s))",
        "30 silence_spared by liveness: offline at 30 (no heartbeat arrived for 30 s) → ready at null (it was taken out of service 32 s after it became offline (allowed: 90.3 s))",
        "30 offline_later by liveness: offline at 30 (no heartbeat arrived for 30 s) → offline at 90.25 (silent for 90.3 s (allowed: 90.3 s))",
        "30 offline_later by liveness: offline at 30 (no heartbeat arrived for 30 s) → offline at 90.25 (silent for 90.3 s (allowed: 90.3 s))",
        "30 offline_later by liveness: offline at 30 (no heartbeat arrived for 30 s) → offline at 90.25 (silent for 90.3 s (allowed: 90.3 s))",
        "15 offline_sooner by liveness: offline at 30 (no heartbeat arrived for 30 s) → offline at 15 (silent for 15 s (allowed: 15 s))",
        "15 offline_sooner by liveness: offline at 30 (no heartbeat arrived for 30 s) → offline at 15 (silent for 15 s (allowed: 15 s))",
        "15 offline_sooner by liveness: offline at 30 (no heartbeat arrived for 30 s) → offline at 15 (silent for 15 s (allowed: 15 s))",
        "15 offline_sooner by liveness: offline at 30 (no heartbeat arrived for 30 s) → offline at 15 (silent for 15 s (allowed: 15 s))",
        "15 offline_sooner by liveness: offline at 30 (no heartbeat arrived for 30 s) → offline at 15 (silent for 15 s (allowed: 15 s))",
        "15 offline_sooner by liveness: offline at 30 (no heartbeat arrived for 30 s) → offline at 15 (silent for 15 s (allowed: 15 s))",
        "50 absent_given_up by offline-deadline: ready at 62 (it returned) → failed at 50 (offline for 20 s; it would have been rescued when it returned)",
        "50 absent_given_up by offline-deadline: ready at 2000 (it returned) → failed at 50 (offline for 20 s; it returned after its rescue window)",
        "50 absent_sooner by offline-deadline: offline at 62 (it was taken out of service) → failed at 50 (offline for 20 s; before it was taken out of service)",
        "50 absent_sooner by offline-deadline: offline at 2000 (it was taken out of service) → failed at 50 (offline for 20 s; before it was taken out of service)",
        "50 absent_sooner by offline-deadline: failed at 3630 (it did not come back) → failed at 50 (offline for 20 s)",
        "50 absent_sooner by offline-deadline: failed at 3630 (it did not come back) → failed at 50 (offline for 20 s)",
        "50 absent_given_up by offline-deadline: ready at 4000 (it returned) → failed at 50 (offline for 20 s; it returned after its rescue window)",
        "3630 absent_later by offline-deadline: failed at 3630 (it did not come back) → failed at 7230 (offline for 7200 s; unless it returns before) ?",
        "3630 absent_spared by offline-deadline: failed at 3630 (it did not come back) → ready at 4000 (it returned before its deadline)",
      ]
    `);
  });

  test('the brake', () => {
    const change = (by: string, from: 'ready' | 'provisioning', to: 'offline' | 'failed', seconds: number) =>
      Array.from({ length: 5 }, () => ({ ...ids(), at: at(seconds), from, to, by, reason: 'why' }));
    const changes = [
      ...change('liveness', 'ready', 'offline', 100),
      ...change('provision-deadline', 'provisioning', 'failed', 200),
    ];
    const held = change('liveness', 'ready', 'offline', 9000).map(({ by, from: _, ...each }) => ({
      ...each,
      rule: by,
    }));
    const tight = policy({ brake: { fraction: 0.2, min_nodes: 5 } });
    const loose = policy({ brake: { fraction: 0.9, min_nodes: 5 } });
    const final_counts = { ready: 10, offline: 5, provisioning: 10, failed: 5 };
    expect(lines(history(loose, { changes, final_counts }), tight).toSorted()).toMatchInlineSnapshot(`
      [
        "100 held by liveness: offline at 100 (why) → held at 100 (too many verdicts at once; held until 2030-01-01T01:01:40.000Z at the latest)",
        "100 held by liveness: offline at 100 (why) → held at 100 (too many verdicts at once; held until 2030-01-01T01:01:40.000Z at the latest)",
        "100 held by liveness: offline at 100 (why) → held at 100 (too many verdicts at once; held until 2030-01-01T01:01:40.000Z at the latest)",
        "100 held by liveness: offline at 100 (why) → held at 100 (too many verdicts at once; held until 2030-01-01T01:01:40.000Z at the latest)",
        "100 held by liveness: offline at 100 (why) → held at 100 (too many verdicts at once; held until 2030-01-01T01:01:40.000Z at the latest)",
        "200 launches_paused by provision-deadline: launches continue at 200 (not too many at once) → launches paused at 200 (too many failed at once; this one was the last of them)",
      ]
    `);
    const past = history(tight, {
      held,
      changes: change('provision-deadline', 'provisioning', 'failed', 200),
      final_counts,
    });
    expect(lines(past, loose).toSorted()).toMatchInlineSnapshot(`
      [
        "200 launches_not_paused by provision-deadline: launches paused at 200 (too many failed at once; this one was the last of them) → launches continue at 200 (not too many at once)",
        "9000 not_held by liveness: held at 9000 (why) → offline at 9000 (not too many at once)",
        "9000 not_held by liveness: held at 9000 (why) → offline at 9000 (not too many at once)",
        "9000 not_held by liveness: held at 9000 (why) → offline at 9000 (not too many at once)",
        "9000 not_held by liveness: held at 9000 (why) → offline at 9000 (not too many at once)",
        "9000 not_held by liveness: held at 9000 (why) → offline at 9000 (not too many at once)",
      ]
    `);
  });
});
