/** Reads how much of its file descriptors and its heap this process uses. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { getHeapSpaceStatistics, getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Clock } from './clock.ts';

export interface Use {
  used: number;
  limit: number;
}

export const shareOf = (use: Use | null): number => (use ? use.used / use.limit : 0);

const isExhausted = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'EMFILE' || error.code === 'ENFILE');

/** Since Linux 6.2 the size of this directory is its number of entries. Before, it was 0. */
const countOpenFiles = (): number => statSync('/proc/self/fd').size || readdirSync('/proc/self/fd').length;

/** The limit may change while the process runs (`prlimit`). Null where there is no /proc. */
export function createOpenFiles(): () => Use | null {
  let limit: number | undefined;
  return () => {
    try {
      const used = countOpenFiles();
      limit = Number(/^Max open files +([0-9]+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? Infinity);
      return { used, limit };
    } catch (error) {
      // Without a free descriptor /proc cannot be read either, so all descriptors are in use.
      return isExhausted(error) && limit !== undefined ? { used: limit, limit } : null;
    }
  };
}

/** The shortest time between two collections by `collectIfOld`. */
const collectEveryMs = 10_000;

export interface HeapWatch {
  /**
   * The heap that the last full collection left in use, which excludes garbage, or the present use
   * if that is smaller.
   */
  use(): Use;
  /**
   * Runs a full collection if the last one is old. Call this while the heap is nearly full: V8 runs
   * none after the load is gone, so the heap would look full forever.
   */
  collectIfOld(): void;
  stop(): void;
}

const isMajor = (entry: PerformanceEntry): boolean =>
  (entry as PerformanceEntry & { detail?: { kind?: number } }).detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR;

function fullCollection(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

/**
 * V8's heap limit includes the maximum size of the spaces for young objects, but the process dies
 * once the other spaces are full. This is the default maximum of the young spaces in Node 24.
 */
const youngBytes = 192 * 1024 ** 2;
const youngSpaces = new Set(['new_space', 'new_large_object_space']);

const heapLimit = () => {
  const { heap_size_limit } = getHeapStatistics();
  return Math.max(heap_size_limit - youngBytes, heap_size_limit / 8);
};
const heapUsed = () =>
  getHeapSpaceStatistics().reduce(
    (sum, { space_name, space_used_size }) => sum + (youngSpaces.has(space_name) ? 0 : space_used_size),
    0,
  );

export function watchHeap(clock: Clock): HeapWatch {
  let collectedMs = clock.monotonicMs();
  let usedAfterCollection = heapUsed();
  const noteCollection = () => {
    collectedMs = clock.monotonicMs();
    usedAfterCollection = heapUsed();
  };
  const observer = new PerformanceObserver((list) => {
    if (list.getEntries().some(isMajor)) noteCollection();
  });
  observer.observe({ entryTypes: ['gc'] });
  return {
    use: () => ({ used: Math.min(usedAfterCollection, heapUsed()), limit: heapLimit() }),
    collectIfOld() {
      if (clock.monotonicMs() - collectedMs < collectEveryMs) return;
      fullCollection();
      noteCollection();
    },
    stop: () => observer.disconnect(),
  };
}
