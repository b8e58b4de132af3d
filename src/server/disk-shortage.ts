/**
 * Watches whether the database is short of disk space. The test of writes finds a full disk of any
 * database. The embedded database shares a disk with this process, so its free space is read too,
 * and new work is refused while PostgreSQL can still extend its log.
 */
import type { Clock } from '../base/clock.ts';
import { type DiskSpace, readDiskSpace } from '../base/files/disk-space.ts';
import { isDiskShort } from '../lifecycle/limits/overload.ts';

export interface DiskShortage {
  isShort(): boolean;
  stop(): void;
}

/** Also how often a full disk is tested again, so that a shortage ends soon after its cause. */
const everyMs = 2_000;
/** Free space near the limit would otherwise begin and end a shortage with each look. */
const endsAfterMs = 10_000;

export function watchDiskShortage(needs: {
  clock: Clock;
  /** The directory of the embedded database. */
  database_dir: string | null;
  /** Whether the last test of writes failed because the disk is full. */
  isDiskFull(): boolean;
  testWrites(): Promise<unknown>;
  onError(error: unknown): void;
  readSpace?(path: string): Promise<DiskSpace | null>;
}): DiskShortage {
  const { clock, database_dir, isDiskFull, testWrites, onError, readSpace = readDiskSpace } = needs;
  let shortMs = Number.NEGATIVE_INFINITY;
  let cancel: () => void = () => {};
  let isStopped = false;

  const look = async () => {
    // Without a shortage, the test runs often enough for other callers.
    if (isDiskFull()) await testWrites();
    const space = database_dir === null ? null : await readSpace(database_dir);
    if (isDiskFull() || (space && isDiskShort(space))) shortMs = clock.monotonicMs();
  };
  const schedule = () => {
    if (!isStopped) cancel = clock.after(everyMs, () => void look().catch(onError).finally(schedule));
  };
  schedule();

  return {
    isShort: () => isDiskFull() || clock.monotonicMs() - shortMs < endsAfterMs,
    stop() {
      isStopped = true;
      cancel();
    },
  };
}
