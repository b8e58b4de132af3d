/**
 * `ingest-watch`: records twice a second that this replica receives heartbeats, finds the gaps in
 * which no replica did, and follows steps of the database's clock. A replica whose watch is not
 * current writes no negative verdict: it may have slept, stalled or lost the store.
 */
import { type Clock, now as present, secondsBetween } from '../../base/clock.ts';
import { defaultBrakeSettings } from '../../lifecycle/brake/brake.ts';
import type { SyncedClock } from '../../store/pg/database-clock.ts';
import { countHeartbeatSources, countReplicas, type HeartbeatLoad } from '../../store/rows/fleet/fleet-load.ts';
import { publishHeard } from '../../store/supervision/ingest-gaps.ts';
import { tightestHeartbeat } from '../../store/supervision/silent-nodes.ts';
import type { IngestWatch } from '../runner/ingest.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const everySeconds = 0.5;
/** An older check may have missed something. */
const steadyForSeconds = 3 * everySeconds;
const leastPatienceSeconds = 1;
/** Policies and fleet size change slowly; reading them for a large fleet takes longer. */
const policyForMs = 5_000;
const large = { nodes: 100_000, forMs: 30_000 };
/** A database that answers late looks like a clock that is off by as much. */
const toleratedDriftMs = 2_000;

type Needs = Pick<SweepServices, 'db' | 'executor'> & {
  clock: Clock & Partial<Pick<SyncedClock, 'resync'>>;
  flushedThrough(): Date;
  onClockJump?(seconds: number): void;
  /** How long our own fault may hold back verdicts. */
  self_fault_seconds?: number;
};

/** Reads the fleet size first: the first agent's interval depends on it. */
export async function openIngestWatch({
  db,
  executor,
  clock,
  flushedThrough,
  onClockJump,
  self_fault_seconds = defaultBrakeSettings.self_fault_seconds,
}: Needs): Promise<IngestWatch> {
  let checkedMs = Number.NEGATIVE_INFINITY;
  let hasPublished = false;
  let listened: HeartbeatLoad = { nodes: 0, replicas: 1 };
  let countedMs = Number.NEGATIVE_INFINITY;
  let policy = { interval_seconds: 0, stale_after_seconds: 0, readMs: Number.NEGATIVE_INFINITY };
  const look = async () => {
    const startedMs = clock.monotonicMs();
    if (startedMs - policy.readMs <= policyForMs) return;
    const isOld = startedMs - countedMs > (listened.nodes < large.nodes ? policyForMs : large.forMs);
    const nodes = isOld ? await countHeartbeatSources(db) : listened.nodes;
    if (isOld) countedMs = startedMs;
    listened = { nodes, replicas: await countReplicas(db, present(clock)) };
    policy = { ...(await tightestHeartbeat(db)), readMs: clock.monotonicMs() };
  };
  await look();
  return {
    async check() {
      const startedMs = clock.monotonicMs();
      await look();
      // At startup, count any time that no steady watch covers, however short. Otherwise a server
      // that restarts again and again would never have a gap long enough to count.
      const patience = hasPublished ? Math.max(leastPatienceSeconds, policy.interval_seconds) : steadyForSeconds;
      const replica = { replica_id: executor.replica_id, flushed_through: flushedThrough() };
      const { database_ms, gap, deaf } = await publishHeard(db, replica, patience, present(clock));
      hasPublished = true;
      const driftMs = database_ms - clock.nowMs();
      if (Math.abs(driftMs) > toleratedDriftMs && clock.resync) {
        await clock.resync();
        onClockJump?.(driftMs / 1000);
        // The next check finds the skipped time as a gap.
        return { gap: false };
      }
      // Heartbeats are received but not stored, so verdicts would blame machines for it; but not
      // forever.
      if (deaf && secondsBetween(replica.flushed_through, present(clock)) < self_fault_seconds) return { gap: false };
      checkedMs = startedMs;
      return { gap: gap !== undefined };
    },
    isSteady: () => clock.monotonicMs() - checkedMs < 1000 * steadyForSeconds,
    tightestStaleSeconds: () => policy.stale_after_seconds,
    listened: () => listened,
  };
}

export const ingestWatch = ({ ingest }: SweepServices): Sweep => ({
  name: 'ingest-watch',
  every_seconds: everySeconds,
  run: async () => ({ decided: (await ingest.check()).gap ? 1 : 0 }),
});
