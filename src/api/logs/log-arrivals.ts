/** Wakes requests that follow a node's log when this replica receives new lines of that log. */
import type { Clock } from '../../base/clock.ts';

export interface LogArrivals {
  announce(node_id: string): void;
  /** Resolves when the next lines arrive, or after `maxMs`. */
  waitForLines(node_id: string, maxMs: number): Promise<void>;
}

export function createLogArrivals(clock: Clock): LogArrivals {
  const waiting = new Map<string, Set<() => void>>();
  return {
    announce(node_id) {
      for (const wake of waiting.get(node_id) ?? []) wake();
    },
    waitForLines: (node_id, maxMs) =>
      new Promise((resolve) => {
        const followers = waiting.get(node_id) ?? new Set();
        waiting.set(node_id, followers);
        const wake = () => {
          cancel();
          followers.delete(wake);
          if (followers.size === 0) waiting.delete(node_id);
          resolve();
        };
        const cancel = clock.after(maxMs, wake);
        followers.add(wake);
      }),
  };
}
