/**
 * Sends progress to stream readers during long steps, which write no facts for minutes while their
 * percentage, remaining time and stall mark change. Checks the running operations a few at a time
 * and sends those whose progress changed. Without readers it queries nothing.
 */
import { type Clock, now } from '../../base/clock.ts';
import type { Operation } from '../../contract/operation.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { listRunningOperations } from '../../store/operations/open-operations.ts';
import { readOperations } from '../../store/operations/operations.ts';
import type { Queryable } from '../../store/pg/database.ts';

const everyMs = 2_000;
/** With many running operations each is checked less often, so that readers are not flooded. */
const maxPerTick = 20;
const slownessSteps = 20;

/** The part of the progress that a person sees, with slowness in steps of 5 %. */
const visibleProgress = ({ progress }: Operation) =>
  [
    Math.floor(progress.percent),
    progress.stalled,
    Math.floor((progress.slower_than ?? 0) * slownessSteps),
    progress.failing?.code,
    progress.failing?.tries,
  ].join(' ');

export function startProgressTicks(options: {
  db: Queryable;
  clock: Clock;
  hasReaders: () => boolean;
  deliver: (moved: Operation[]) => Promise<void>;
  onError: (error: unknown) => void;
}): () => void {
  const { db, clock } = options;
  let after = '';
  /** The visible progress of each operation in the last round and in the current one. */
  let lastRound = new Map<string, string>();
  let currentRound = new Map<string, string>();
  let cancel = () => {};
  let isStopped = false;

  const hasMoved = (operation: Operation): boolean => {
    const last = lastRound.get(operation.workflow_id);
    return last !== undefined && last !== visibleProgress(operation);
  };

  const checkSome = async () => {
    const ids = await listRunningOperations(db, after, maxPerTick);
    const operations = await readOperations(db, ids, wholeFleet, now(clock));
    const moved = operations.filter(hasMoved);
    for (const each of operations) currentRound.set(each.workflow_id, visibleProgress(each));
    after = ids.at(-1) ?? '';
    if (ids.length < maxPerTick) {
      after = '';
      lastRound = currentRound;
      currentRound = new Map();
    }
    if (moved.length > 0) await options.deliver(moved);
  };

  const tick = async () => {
    try {
      if (options.hasReaders()) await checkSome();
      else lastRound.clear();
    } catch (error) {
      options.onError(error);
    }
    if (!isStopped) cancel = clock.after(everyMs, () => void tick());
  };
  cancel = clock.after(everyMs, () => void tick());
  return () => {
    isStopped = true;
    cancel();
  };
}
