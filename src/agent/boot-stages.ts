/** How long each part of the start took: kept with the state, told with the registration and, what comes later, as it comes. */
import { type Clock, moment, pause } from '../base/clock.ts';
import type { BootStage } from '../contract/node.ts';
import type { SimulatedStage } from './config.ts';
import type { ControlPlane } from './control-plane.ts';
import type { Log } from './log.ts';
import { type ShipLoop, shipLoop } from './ship-loop.ts';
import type { StateFile } from './state-file.ts';
import type { Timing } from './timing.ts';

export interface BootStages {
  /** Runs a stage and records it, also when it fails. */
  run<T>(name: string, work: () => Promise<T>): Promise<T>;
  current(): string | null;
  all(): BootStage[];
  unsent(): BootStage[];
  /** The server has the first `count` stages. */
  sent(count: number): void;
  onRecorded(listener: () => void): void;
}

export function bootStages(clock: Clock, state: StateFile): BootStages {
  let current: string | null = null;
  const listeners: (() => void)[] = [];
  const record = (stage: BootStage) => {
    state.note({ boot_stages: [...state.read().boot_stages, stage] });
    for (const listener of listeners) listener();
  };
  return {
    async run(name, work) {
      const started_ms = clock.monotonicMs();
      const started_at = moment(clock.nowMs()).toISOString();
      current = name;
      try {
        return await work();
      } finally {
        current = null;
        record({ name, seconds: Math.round(clock.monotonicMs() - started_ms) / 1000, started_at });
      }
    },
    current: () => current,
    all: () => state.read().boot_stages,
    unsent: () => state.read().boot_stages.slice(state.read().boot_stages_sent),
    sent: (count) => state.note({ boot_stages_sent: count }),
    onRecorded: (listener) => void listeners.push(listener),
  };
}

export interface BootShipperParts {
  clock: Clock;
  stages: BootStages;
  server: ControlPlane;
  timing: Timing;
  signal: AbortSignal;
}

export function bootShipper({ clock, stages, server, timing, signal }: BootShipperParts): ShipLoop {
  const loop = shipLoop({
    clock,
    signal,
    gather_ms: 0,
    retry: timing.ship_retry,
    async ship() {
      const known = stages.all().length;
      const unsent = stages.unsent();
      if (unsent.length === 0) return 'empty';
      const answer = await server.boot(unsent, signal);
      if (!answer.ok) return answer.failure;
      stages.sent(known);
      return 'more';
    },
  });
  stages.onRecorded(loop.wake);
  return loop;
}

/** For demonstrations and tests: nothing is done, the time is real, and the log says that it was only passed. */
export async function simulateStages(
  simulated: SimulatedStage[],
  parts: { stages: BootStages; clock: Clock; log: Log; signal: AbortSignal },
): Promise<void> {
  for (const { name, seconds } of simulated) {
    if (parts.signal.aborted) return;
    parts.log.info('boot stage begins (simulated: it only takes time)', { boot_stage: name, seconds });
    await parts.stages.run(name, () => pause(parts.clock, seconds * 1000, parts.signal));
  }
}
