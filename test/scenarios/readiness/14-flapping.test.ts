/**
 * A machine whose heartbeats jitter around the threshold changes its status at most once per stale
 * time. A machine that misses a single heartbeat never changes its status.
 */
import { expect, vi } from 'vitest';
import { pause, secondsBetween, systemClock } from '../../../src/base/clock.ts';
import type * as HeartbeatPolicy from '../../../src/lifecycle/deadlines/heartbeat-policy.ts';
import type { Machine } from '../../api/support/machine.ts';
import { type Change, changesOf, externalPool, joinMachine } from '../support/machines.ts';
import { type ScenarioContext, scenario, whileBroken, withDeciders } from '../support/scenario.ts';

const brokenParts = vi.hoisted(() => ({}) as Partial<Pick<typeof HeartbeatPolicy, 'effectiveStaleSeconds'>>);

vi.mock(import('../../../src/lifecycle/deadlines/heartbeat-policy.ts'), async (original) => {
  const originalModule = await original();
  return {
    ...originalModule,
    effectiveStaleSeconds: (...args) =>
      (brokenParts.effectiveStaleSeconds ?? originalModule.effectiveStaleSeconds)(...args),
  };
});

/** Far enough above three intervals that their jitter does not matter. */
const stale_seconds = 1;
const jittery = { interval_seconds: stale_seconds / 5, stale_after_seconds: stale_seconds };
/** Pauses between heartbeats, in stale times: beyond the threshold, far below it, and around it. */
const gaps = [1.9, 0.2, 0.1, 0.3, 0.9, 1.1, 0.1, 1.8, 0.2, 0.4];
/** The machine goes offline and returns, twice. */
const minChanges = 4;
const maxWindows = 100;

/**
 * The pool's stale time is below one interval; three of the assigned intervals count instead. The
 * machine misses one, and a busy host may delay it by less than another.
 */
const interval_seconds = 3.5;
const minMissed = 3;
const steadyHeartbeat = { interval_seconds, stale_after_seconds: interval_seconds / 4 };

/** Reads the changes of a machine since it first became ready. */
async function readChangesSinceReady(context: ScenarioContext, { node_id }: Machine): Promise<Change[]> {
  const changes = await changesOf(context, node_id);
  return changes.slice(changes.findIndex((change) => change.to === 'ready') + 1);
}

function expectNoFlapping(changes: Change[]): void {
  for (const [index, { at, to }] of changes.entries()) {
    const before = changes[index - 1];
    if (before)
      expect(secondsBetween(before.at, at), `from ${before.to} to ${to} within a stale time`).toBeGreaterThanOrEqual(
        stale_seconds,
      );
  }
}

interface Run {
  /** True once a machine went offline, which proves that the liveness rule runs. */
  noticed: boolean;
  over: AbortSignal;
}

/**
 * Sends heartbeats with pauses around the threshold until the machine has changed often enough to
 * judge the rate.
 */
async function beatWithJitter(context: ScenarioContext, machine: Machine, run: Run): Promise<void> {
  const startedMs = systemClock.monotonicMs();
  for (let beat = 0, changes: Change[] = []; changes.length < minChanges; beat++) {
    const windows = (systemClock.monotonicMs() - startedMs) / 1000 / stale_seconds;
    expect(windows, `stale times for ${changes.length} changes`).toBeLessThan(maxWindows);
    await pause(systemClock, (gaps[beat % gaps.length] ?? 0) * stale_seconds * 1000, run.over);
    if (run.over.aborted) return;
    await machine.beat();
    changes = await readChangesSinceReady(context, machine);
    run.noticed ||= changes.length > 0;
    expectNoFlapping(changes);
    for (const { by } of changes) expect(['liveness', 'heartbeat-returned']).toContain(by);
  }
}

/** Skips every second heartbeat once the rule runs, so each gap is two intervals long. */
async function beatWithGaps(context: ScenarioContext, machine: Machine, run: Run): Promise<void> {
  for (let missed = 0; missed < minMissed; ) {
    const { noticed } = run;
    await pause(systemClock, (noticed ? 2 : 1) * interval_seconds * 1000, run.over);
    if (run.over.aborted) return;
    await machine.beat();
    expect(await readChangesSinceReady(context, machine), 'changes of a machine that missed one heartbeat').toEqual([]);
    if (noticed) missed++;
  }
}

scenario({
  name: 'a machine whose heartbeats jitter around the threshold',
  async story(context) {
    await externalPool(context, 'jittery', { heartbeat: jittery });
    await externalPool(context, 'steady', { heartbeat: steadyHeartbeat });
    const unsteady = await joinMachine(context, 'jittery', 'jitters');
    const gapMachine = await joinMachine(context, 'steady', 'misses-one');
    for (const machine of [unsteady, gapMachine]) await machine.beat('ready');
    const endSignal = new AbortController();
    const run: Run = { noticed: false, over: endSignal.signal };
    const loops = [beatWithJitter(context, unsteady, run), beatWithGaps(context, gapMachine, run)];
    // When one of the two has failed, the other need not continue.
    await Promise.all(loops).finally(() => endSignal.abort());
  },
  counterTests: [
    {
      broken: 'a machine that returns at its first heartbeat',
      composition: withDeciders(({ effectOfBeat }) => ({
        effectOfBeat: (node, beat, now) =>
          node.status === 'offline'
            ? { to: 'ready', by: 'heartbeat-returned', reason: 'its heartbeats resumed' }
            : effectOfBeat(node, beat, now),
      })),
      fails: /from offline to ready within a stale time/,
    },
    {
      broken: 'a stale time that ignores the assigned interval',
      around: whileBroken(brokenParts, { effectiveStaleSeconds: (stale_after_seconds) => stale_after_seconds }),
      fails: /changes of a machine that missed one heartbeat/,
    },
  ],
});
