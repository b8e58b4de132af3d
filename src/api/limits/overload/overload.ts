/**
 * Measures the strain on this replica twice a second, smoothed over a few seconds: a garbage
 * collection or one slow statement is no overload. `lifecycle/limits/overload.ts` decides what to
 * shed.
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
   * The problem for a heartbeat that was accepted, from a machine that should send fewer. Counts
   * it.
   */
  slowDown(heartbeat_interval_seconds: number): ApiProblem;
  /** Throws `server_busy` for a read that can wait, during an overload. */
  admitRead(operation: OperationName, query: Record<string, unknown>): void;
  figures(): OverloadFigures;
  stop(): void;
}

const everyMs = 500;
/** Weight of the newest sample in the moving average. */
const share = 0.2;
/** Caps one late flush: after an outage the delay covers all of it and is already over. */
const maxLateMs = 6_000;
/** Caps one late sample: a process that was suspended for a minute is not overloaded. */
const maxLagMs = 4_000;
const readRetrySeconds = 5;

const begins =
  'overloaded: refusing lists first, then plain heartbeats; Attention, single nodes and changes are served';
const ends = 'overload is over';
const isShedding = ({ reads, beats }: Shedding) => reads || beats;

export function watchOverload(needs: {
  clock: Clock;
  beats: Pick<HeartbeatBuffer, 'added' | 'storedAfterMs'>;
  beat_rate: number;
  /** Called when shedding begins and when it ends. */
  onChange?(how: string, strain: ReplicaLoad): void;
}): Overload {
  const { clock, beats, beat_rate, onChange } = needs;
  const strain: ReplicaLoad = { loop_lag_ms: 0, behind_ms: 0, beats_per_second: 0, beat_rate };
  let shedding = decideShedding(strain);
  let beats_shed = 0;
  let reads_shed = 0;
  let added = beats.added();
  let sampledMs = clock.monotonicMs();
  let cancel: (() => void) | undefined;

  const smooth = (before: number, present: number) => before + share * (present - before);
  const sample = () => {
    const elapsedMs = Math.max(1, clock.monotonicMs() - sampledMs);
    sampledMs += elapsedMs;
    strain.loop_lag_ms = smooth(strain.loop_lag_ms, Math.min(Math.max(0, elapsedMs - everyMs), maxLagMs));
    strain.behind_ms = smooth(strain.behind_ms, Math.min(beats.storedAfterMs(), maxLateMs));
    strain.beats_per_second = smooth(strain.beats_per_second, ((beats.added() - added) * 1000) / elapsedMs);
    added = beats.added();
    const before = shedding;
    shedding = decideShedding(strain);
    if (isShedding(shedding) !== isShedding(before)) onChange?.(isShedding(shedding) ? begins : ends, { ...strain });
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
    figures: () => ({ ...strain, shedding, beats: beats.added(), beats_shed, reads_shed }),
    stop: () => cancel?.(),
  };
}
