/**
 * Measures the load of this replica twice a second. The load is smoothed over a few seconds, since
 * a garbage collection or one slow statement is not an overload. `lifecycle/limits/overload.ts`
 * decides what to shed.
 */
import type { Clock } from '../../../base/clock.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import type { OperationName } from '../../../contract/routes.ts';
import { decideShedding, type ReplicaLoad, type Shedding } from '../../../lifecycle/limits/overload.ts';
import type { HeartbeatBuffer } from '../../../store/heartbeats/heartbeat-buffer.ts';
import { readTurn } from './read-order.ts';

export interface OverloadFigures extends ReplicaLoad {
  shedding: Shedding;
  beats: number;
  beats_shed: number;
  reads_shed: number;
}

export interface Overload {
  shedding(): Shedding;
  /**
   * Returns the problem that tells the sender of an accepted heartbeat to slow down, and counts the
   * heartbeat as shed.
   */
  slowDown(heartbeat_interval_seconds: number): ApiProblem;
  /** During an overload, throws `server_busy` for a read that can wait. */
  admitRead(operation: OperationName, query: Record<string, unknown>): void;
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
const readRetrySeconds = 5;

const beginMessage =
  'overloaded: refusing lists first, then plain heartbeats; Attention, single nodes and changes are served';
const endMessage = 'overload is over';
const isShedding = ({ reads, beats }: Shedding) => reads || beats;

export function watchOverload(needs: {
  clock: Clock;
  beats: Pick<HeartbeatBuffer, 'added' | 'storedAfterMs'>;
  beat_rate: number;
  /** Called when shedding begins and when it ends. */
  onChange?(message: string, load: ReplicaLoad): void;
}): Overload {
  const { clock, beats, beat_rate, onChange } = needs;
  const load: ReplicaLoad = { loop_lag_ms: 0, behind_ms: 0, beats_per_second: 0, beat_rate };
  let shedding = decideShedding(load);
  let beats_shed = 0;
  let reads_shed = 0;
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
    const wasShedding = isShedding(shedding);
    shedding = decideShedding(load);
    if (isShedding(shedding) !== wasShedding) onChange?.(isShedding(shedding) ? beginMessage : endMessage, { ...load });
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
      const turn = readTurn(operation, query);
      if (turn === 'never' || (turn === 'last' && !shedding.beats)) return;
      reads_shed++;
      throw new ApiProblem('server_busy', { retry_after_seconds: readRetrySeconds });
    },
    figures: () => ({ ...load, shedding, beats: beats.added(), beats_shed, reads_shed }),
    stop: () => cancel?.(),
  };
}
