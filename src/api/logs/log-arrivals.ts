/** Wakes whoever follows a node's log when lines of it reach this replica. */
import type { Clock } from '../../base/clock.ts';

export interface LogArrivals {
  announce(node_id: string): void;
  /** Resolves at the next arrival, or after `mostMs`. */
  next(node_id: string, mostMs: number): Promise<void>;
}

export function createLogArrivals(clock: Clock): LogArrivals {
  const waiting = new Map<string, Set<() => void>>();
  return {
    announce(node_id) {
      for (const wake of waiting.get(node_id) ?? []) wake();
    },
    next: (node_id, mostMs) =>
      new Promise((resolve) => {
        const followers = waiting.get(node_id) ?? new Set();
        waiting.set(node_id, followers);
        const wake = () => {
          cancel();
          followers.delete(wake);
          if (followers.size === 0) waiting.delete(node_id);
          resolve();
        };
        const cancel = clock.after(mostMs, wake);
        followers.add(wake);
      }),
  };
}
