/**
 * `ingest-watch`: records twice a second that this replica receives heartbeats, records gaps in
 * which no replica received any, and resyncs after steps of the database's clock. A replica without
 * a recent check writes no negative verdict: it may have slept, stalled or lost the store.
 */
import { type Clock, moment, now as present, secondsBetween, secondsLater } from '../../base/clock.ts';
import { defaultBrakeSettings } from '../../lifecycle/brake/brake.ts';
import { leaseSeconds } from '../../store/operations/replicas.ts';
import type { SyncedClock } from '../../store/pg/database-clock.ts';
import { countHeartbeatSources, countReplicas, type HeartbeatLoad } from '../../store/rows/fleet/fleet-load.ts';
import { publishStoredThrough } from '../../store/supervision/ingest-gaps.ts';
import { readTightestHeartbeat } from '../../store/supervision/silent-nodes.ts';
import type { IngestWatch } from '../runner/ingest.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const everySeconds = 0.5;
/**
 * After a failover or a restore the rows may be older than what machines last reported, so machines
 * get this long to report again before a negative verdict.
 */
export const heldAfterFailoverSeconds = 30;
/** A replica whose last check is older may be missing heartbeats. */
const steadyForSeconds = 3 * everySeconds;
/** The shortest silence of all replicas that counts as a gap, if a pool's interval is shorter. */
const minGapSeconds = 1;
/** Policies and fleet size change slowly, and counting a large fleet is expensive. */
const policyMaxAgeMs = 5_000;
const largeFleet = { nodes: 100_000, maxAgeMs: 30_000 };
const toleratedOffsetMs = 2_000;
/** Zero within the interval, because a commit may wait for long after the clock was read. */
const distanceMs = (ms: number, fromMs: number, untilMs: number) => ms - Math.min(Math.max(ms, fromMs), untilMs);

type IngestWatchOptions = Pick<SweepServices, 'db' | 'executor'> & {
  clock: Clock & Partial<Pick<SyncedClock, 'resync'>>;
  flushedThrough(): Date;
  onClockJump?(seconds: number): void;
  /** How long our own fault may hold back verdicts. */
  self_fault_seconds?: number;
};

/** Reads the fleet size before it returns, because the first agent's interval depends on it. */
export async function openIngestWatch({
  db,
  executor,
  clock,
  flushedThrough,
  onClockJump,
  self_fault_seconds = defaultBrakeSettings.self_fault_seconds,
}: IngestWatchOptions): Promise<IngestWatch & { hold(): void }> {
  let checkedMs = Number.NEGATIVE_INFINITY;
  let heldUntilMs = Number.NEGATIVE_INFINITY;
  let steppedMs = Number.NEGATIVE_INFINITY;
  let hasPublished = false;
  let load: HeartbeatLoad = { nodes: 0, replicas: 1 };
  let countedMs = Number.NEGATIVE_INFINITY;
  let policy = { interval_seconds: 0, stale_after_seconds: 0, readMs: Number.NEGATIVE_INFINITY };
  const refreshPolicy = async () => {
    const startedMs = clock.monotonicMs();
    if (startedMs - policy.readMs <= policyMaxAgeMs) return;
    const countIsOld = startedMs - countedMs > (load.nodes < largeFleet.nodes ? policyMaxAgeMs : largeFleet.maxAgeMs);
    const nodes = countIsOld ? await countHeartbeatSources(db) : load.nodes;
    if (countIsOld) countedMs = startedMs;
    load = { nodes, replicas: await countReplicas(db, present(clock)) };
    policy = { ...(await readTightestHeartbeat(db)), readMs: clock.monotonicMs() };
  };
  await refreshPolicy();
  /** The skipped time is a gap. Deadlines move by it before any rule reads the new clock. */
  const followStep = async (resync: () => Promise<void>, offsetMs: number) => {
    checkedMs = Number.NEGATIVE_INFINITY;
    steppedMs = clock.monotonicMs();
    const offsetSeconds = offsetMs / 1000;
    const flushed_through = secondsLater(flushedThrough(), offsetSeconds);
    const replica = { replica_id: executor.replica_id, flushed_through };
    const at = moment(clock.nowMs() + offsetMs);
    const { gap } = await publishStoredThrough(db, replica, steadyForSeconds, at);
    await resync();
    onClockJump?.(offsetSeconds);
    return { gap: gap !== undefined };
  };
  return {
    async check() {
      const startedMs = clock.monotonicMs();
      await refreshPolicy();
      // At startup, any time that no steady check covers is a gap, however short. Otherwise a
      // server that restarts again and again would never have a gap long enough to be recorded.
      const gapSeconds = hasPublished ? Math.max(minGapSeconds, policy.interval_seconds) : steadyForSeconds;
      const replica = { replica_id: executor.replica_id, flushed_through: flushedThrough() };
      const publishedFromMs = clock.nowMs();
      const { database_ms, gap, isIngestStopped } = await publishStoredThrough(db, replica, gapSeconds, present(clock));
      hasPublished = true;
      const offsetMs = distanceMs(database_ms, publishedFromMs, clock.nowMs());
      if (Math.abs(offsetMs) > toleratedOffsetMs && clock.resync) return followStep(clock.resync, offsetMs);
      // Heartbeats arrive but are not stored, so a verdict would blame machines for our own fault.
      // After the self-fault limit, verdicts are written anyway.
      if (isIngestStopped && secondsBetween(replica.flushed_through, present(clock)) < self_fault_seconds)
        return { gap: false };
      checkedMs = startedMs;
      return { gap: gap !== undefined };
    },
    isSteady: () => {
      const nowMs = clock.monotonicMs();
      return nowMs >= heldUntilMs && nowMs - checkedMs < 1000 * steadyForSeconds;
    },
    hold() {
      heldUntilMs = clock.monotonicMs() + 1000 * heldAfterFailoverSeconds;
    },
    isClockSettled: () => clock.monotonicMs() - steppedMs > 1000 * leaseSeconds,
    tightestStaleSeconds: () => policy.stale_after_seconds,
    heartbeatLoad: () => load,
  };
}

export const ingestWatch = ({ ingest }: SweepServices): Sweep => ({
  name: 'ingest-watch',
  runsAfterRestore: true,
  every_seconds: everySeconds,
  run: async () => ({ decided: (await ingest.check()).gap ? 1 : 0 }),
});
