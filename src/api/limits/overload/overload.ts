/**
 * How hard this replica has it, looked at twice a second and smoothed over a few: a pause of the collector or one slow
 * statement is no overload. What follows from it is decided in `lifecycle/limits/overload.ts`.
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
  /** The problem of a beat that was heard, and whose machine is to beat seldomer; it is counted. */
  slowDown(heartbeat_interval_seconds: number): ApiProblem;
  /** Throws the problem of a question that can wait, while there is no time for it. */
  admitRead(operation: OperationName, query: Record<string, unknown>): void;
  figures(): OverloadFigures;
  stop(): void;
}

const everyMs = 500;
/** Of what was and what is, so much is what is: after a few seconds the past no longer counts. */
const share = 0.2;
/** What was stored after an outage was late by all of it; that is over when it is known. */
const mostLateMs = 6_000;
/** A process that was stopped for a minute has it no harder afterwards: one look alone, however late, sheds nothing. */
const mostLagMs = 4_000;
const readAgainSeconds = 5;

const tooMuch =
  'overloaded: refusing lists first, then plain heartbeats; Attention, single nodes and changes are served';
const enough = 'nothing is put off any more';
const isShedding = ({ reads, beats }: Shedding) => reads || beats;

export function watchOverload(needs: {
  clock: Clock;
  beats: Pick<HeartbeatBuffer, 'added' | 'storedAfterMs'>;
  beat_rate: number;
  /** Told when it begins to put off what can wait, and when that is over. */
  onChange?(how: string, strain: ReplicaLoad): void;
}): Overload {
  const { clock, beats, beat_rate, onChange } = needs;
  const strain: ReplicaLoad = { loop_lag_ms: 0, behind_ms: 0, beats_per_second: 0, beat_rate };
  let shedding = decideShedding(strain);
  let beats_shed = 0;
  let reads_shed = 0;
  let added = beats.added();
  let lookedMs = clock.monotonicMs();
  let cancel: (() => void) | undefined;

  const smooth = (before: number, present: number) => before + share * (present - before);
  const look = () => {
    const elapsedMs = Math.max(1, clock.monotonicMs() - lookedMs);
    lookedMs += elapsedMs;
    strain.loop_lag_ms = smooth(strain.loop_lag_ms, Math.min(Math.max(0, elapsedMs - everyMs), mostLagMs));
    strain.behind_ms = smooth(strain.behind_ms, Math.min(beats.storedAfterMs(), mostLateMs));
    strain.beats_per_second = smooth(strain.beats_per_second, ((beats.added() - added) * 1000) / elapsedMs);
    added = beats.added();
    const before = shedding;
    shedding = decideShedding(strain);
    if (isShedding(shedding) !== isShedding(before)) onChange?.(isShedding(shedding) ? tooMuch : enough, { ...strain });
    cancel = clock.after(everyMs, look);
  };
  cancel = clock.after(everyMs, look);

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
      throw new ApiProblem('server_busy', { retry_after_seconds: readAgainSeconds });
    },
    figures: () => ({ ...strain, shedding, beats: beats.added(), beats_shed, reads_shed }),
    stop: () => cancel?.(),
  };
}
