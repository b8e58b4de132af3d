/**
 * Records how long each stage of the boot took. The state file holds the stages. They are sent with
 * the registration, and later stages as soon as they end.
 */
import { type Clock, moment, pause } from '../../base/clock.ts';
import type { BootStage } from '../../contract/node.ts';
import { describeFailure, isTransient } from '../connection/call-failure.ts';
import type { ControlPlane } from '../connection/control-plane.ts';
import type { ServerTime } from '../connection/server-time.ts';
import type { Log } from '../log.ts';
import { type ShipLoop, shipLoop } from '../spool/ship-loop.ts';
import type { SimulatedStage } from '../state/config.ts';
import type { StateFile } from '../state/state-file.ts';
import type { Timing } from '../timing.ts';

export interface BootStages {
  /** Runs a stage and records it, even if it fails. */
  run<T>(name: string, work: () => Promise<T>): Promise<T>;
  current(): string | null;
  /** Returns all stages, with a start time by the server's clock if it is known. */
  all(): BootStage[];
  unsent(): BootStage[];
  /** Records that the server has the first `count` stages. */
  markSent(count: number): void;
  /** Stops sending start times. Returns whether they were sent until now. */
  dropTimes(): boolean;
  onRecorded(listener: () => void): void;
}

/** Measures starts on the monotonic clock, because the machine's wall clock may be years off. */
export function bootStages(clock: Clock, state: StateFile, time: ServerTime): BootStages {
  let current: string | null = null;
  let omitsTimes = false;
  const startsByIndex = new Map<number, number>();
  const listeners: (() => void)[] = [];
  const record = (stage: BootStage, started_ms: number) => {
    const stages = state.read().boot_stages;
    startsByIndex.set(stages.length, started_ms);
    state.note({ boot_stages: [...stages, stage] });
    for (const listener of listeners) listener();
  };
  const withStartTime = ({ name, seconds }: BootStage, index: number): BootStage => {
    const started_ms = startsByIndex.get(index);
    const at_ms = omitsTimes || started_ms === undefined ? null : time.serverTimeAt(started_ms);
    return { name, seconds, ...(at_ms === null ? {} : { started_at: moment(at_ms).toISOString() }) };
  };
  const all = () => state.read().boot_stages.map(withStartTime);
  return {
    async run(name, work) {
      const started_ms = clock.monotonicMs();
      current = name;
      try {
        return await work();
      } finally {
        if (current === name) current = null;
        record({ name, seconds: Math.round(clock.monotonicMs() - started_ms) / 1000 }, started_ms);
      }
    },
    current: () => current,
    all,
    unsent: () => all().slice(state.read().boot_stages_sent),
    markSent: (count) => state.note({ boot_stages_sent: count }),
    dropTimes() {
      const sentTimes = !omitsTimes;
      omitsTimes = true;
      return sentTimes;
    },
    onRecorded: (listener) => void listeners.push(listener),
  };
}

export interface BootShipperParts {
  clock: Clock;
  stages: BootStages;
  server: ControlPlane;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
}

export function bootShipper({ clock, stages, server, log, timing, signal }: BootShipperParts): ShipLoop {
  const loop = shipLoop({
    clock,
    signal,
    batch_ms: 0,
    retry: timing.ship_retry,
    async ship() {
      const count = stages.all().length;
      const unsent = stages.unsent();
      if (unsent.length === 0) return 'empty';
      const answer = await server.boot(unsent, signal);
      if (answer.ok) {
        stages.markSent(count);
        return 'more';
      }
      const { failure } = answer;
      if (failure.code === 'claim_from_future' && stages.dropTimes()) return 'more';
      if (failure.status === 400 && !isTransient(failure)) {
        log.warn('the server refuses these boot stages', { failure: describeFailure(failure), stages: unsent });
        stages.markSent(count);
      }
      return failure;
    },
  });
  stages.onRecorded(loop.wake);
  return loop;
}

/** Simulates stages for demonstrations and tests: only time passes, and the log says so. */
export async function simulateStages(
  simulated: SimulatedStage[],
  parts: { stages: BootStages; clock: Clock; log: Log; signal: AbortSignal },
): Promise<void> {
  for (const { name, seconds } of simulated) {
    if (parts.signal.aborted) return;
    parts.log.info('boot stage started (simulated: it only takes time)', { boot_stage: name, seconds });
    await parts.stages.run(name, () => pause(parts.clock, seconds * 1000, parts.signal));
  }
}
