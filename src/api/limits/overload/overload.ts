/**
 * Measures the load of this replica twice a second. The load is smoothed over a few seconds, since
 * a garbage collection or one slow statement is not an overload. `lifecycle/limits/overload.ts`
 * decides what to shed.
 */
import type { Clock } from '../../../base/clock.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import type { RouteDeclaration } from '../../../contract/route.ts';
import type { OperationName } from '../../../contract/routes.ts';
import {
  decideShedding,
  noShortage,
  type ReplicaLoad,
  type Resource,
  type Shedding,
  type Shortage,
  shortResources,
} from '../../../lifecycle/limits/overload.ts';
import type { HeartbeatBuffer } from '../../../store/heartbeats/heartbeat-buffer.ts';
import { shedOrderOf } from './read-order.ts';

export interface OverloadFigures extends ReplicaLoad {
  shedding: Shedding;
  beats: number;
  beats_shed: number;
  reads_shed: number;
  work_refused: number;
}

export interface Overload {
  shedding(): Shedding;
  /**
   * Returns the problem that asks the sender of an accepted heartbeat to slow down, and counts the
   * heartbeat as shed.
   */
  slowDown(heartbeat_interval_seconds: number): ApiProblem;
  /** During an overload, throws `server_busy` for a read that can wait. */
  admitRead(operation: OperationName, query: Record<string, unknown>): void;
  /** During a shortage, throws `resources_short` for a route that starts new work. */
  admitWork(route: Pick<RouteDeclaration, 'method' | 'new_work' | 'reads_only'>): void;
  figures(): OverloadFigures;
  stop(): void;
}

const everyMs = 500;
/** Weight of the newest sample in the moving average. */
const sampleWeight = 0.2;
/** Caps one late flush: after an outage of the store, the delay is as long as the outage. */
const maxLateMs = 6_000;
/** Caps one late sample: a process that was suspended for a minute is not overloaded. */
const maxLagMs = 4_000;
const retrySeconds = 5;

const beginMessage =
  'overloaded: refusing lists first, then plain heartbeats; Attention, single nodes and changes are served';
const endMessage = 'overload is over';
const shortMessage =
  'short of memory, file descriptors or database connections: refusing lists and new work; heartbeats are served';
const shortEndMessage = 'the shortage is over';
const diskMessage = 'short of disk space for the database: refusing new work; reads and heartbeats are served';
const diskEndMessage = 'the shortage of disk space is over';
const resourceNames: Record<Resource, string> = {
  memory: 'memory',
  files: 'file descriptors',
  connections: 'database connections',
  disk: 'disk space',
};
const isOverloaded = ({ reads, beats, work }: Shedding) => beats || (reads && !work);

export function watchOverload(needs: {
  clock: Clock;
  beats: Pick<HeartbeatBuffer, 'added' | 'storedAfterMs'>;
  beat_rate: number;
  /** Read at each sample and not smoothed. */
  shortage?(): Shortage;
  /** Called when shedding begins and when it ends. */
  onChange?(message: string, load: ReplicaLoad): void;
}): Overload {
  const { clock, beats, beat_rate, shortage = () => noShortage, onChange } = needs;
  const load: ReplicaLoad = { ...noShortage, loop_lag_ms: 0, behind_ms: 0, beats_per_second: 0, beat_rate };
  let shedding = decideShedding(load);
  let beats_shed = 0;
  let reads_shed = 0;
  let work_refused = 0;
  let added = beats.added();
  let sampledMs = clock.monotonicMs();
  let cancel: (() => void) | undefined;

  const smooth = (average: number, newest: number) => average + sampleWeight * (newest - average);
  const sample = () => {
    const elapsedMs = Math.max(1, clock.monotonicMs() - sampledMs);
    sampledMs += elapsedMs;
    load.loop_lag_ms = smooth(load.loop_lag_ms, Math.min(Math.max(0, elapsedMs - everyMs), maxLagMs));
    // Without new heartbeats, the delay of the last flush says nothing about the present.
    const lateMs = beats.added() === added ? 0 : beats.storedAfterMs();
    load.behind_ms = smooth(load.behind_ms, Math.min(lateMs, maxLateMs));
    load.beats_per_second = smooth(load.beats_per_second, ((beats.added() - added) * 1000) / elapsedMs);
    added = beats.added();
    const wasShortOfDisk = load.is_short_of_disk;
    Object.assign(load, shortage());
    const before = shedding;
    shedding = decideShedding(load);
    if (isOverloaded(shedding) !== isOverloaded(before))
      onChange?.(isOverloaded(shedding) ? beginMessage : endMessage, { ...load });
    if (shedding.work !== before.work) onChange?.(shedding.work ? shortMessage : shortEndMessage, { ...load });
    if (load.is_short_of_disk !== wasShortOfDisk)
      onChange?.(load.is_short_of_disk ? diskMessage : diskEndMessage, { ...load });
    cancel = clock.after(everyMs, sample);
  };
  cancel = clock.after(everyMs, sample);

  return {
    shedding: () => shedding,
    slowDown(heartbeat_interval_seconds) {
      beats_shed++;
      const retry_after_seconds = heartbeat_interval_seconds;
      return new ApiProblem('beats_slow_down', { retry_after_seconds, heartbeat_interval_seconds });
    },
    admitRead(operation, query) {
      if (!shedding.reads) return;
      const order = shedOrderOf(operation, query);
      if (order === 'never' || (order === 'last' && !shedding.beats)) return;
      reads_shed++;
      throw new ApiProblem('server_busy', { retry_after_seconds: retrySeconds });
    },
    admitWork({ method, new_work, reads_only }) {
      const isChange = method !== 'GET' && !reads_only;
      if (!new_work || !(isChange ? shedding.changes : shedding.work)) return;
      work_refused++;
      const short = shortResources(load)
        .map((resource) => resourceNames[resource])
        .join(' and ');
      const detail = `The server is short of ${short}, so it starts nothing new. \`slipway status\` says what to do.`;
      throw new ApiProblem('resources_short', { detail, retry_after_seconds: retrySeconds });
    },
    figures: () => ({ ...load, shedding, beats: beats.added(), beats_shed, reads_shed, work_refused }),
    stop: () => cancel?.(),
  };
}
