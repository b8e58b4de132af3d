/**
 * In a long step nothing is told for minutes, and still the bar moves, the time left runs down, and at some point it stands still for
 * longer than it should. Whoever watches a stream is shown that as well: running operations are looked at in turn, a few at a time,
 * and those whose progress has moved with the time are sent on. Nothing is written, and without readers nothing is asked.
 */
import { type Clock, now } from '../../base/clock.ts';
import type { Operation } from '../../contract/operation.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { runningOperations } from '../../store/operations/open-operations.ts';
import { readOperations } from '../../store/operations/operations.ts';
import type { Queryable } from '../../store/pg/database.ts';

const everyMs = 2_000;
/** So that a fleet that boots in droves floods nobody: each then comes round less often. */
const atATime = 20;

/** What a person sees of it. */
const seenOf = ({ progress }: Operation) =>
  `${Math.floor(progress.percent)} ${progress.stalled} ${Math.floor((progress.slower_than ?? 0) * 20)}`;

export function startProgressTicks(options: {
  db: Queryable;
  clock: Clock;
  hasReaders: () => boolean;
  deliver: (moved: Operation[]) => Promise<void>;
  onError: (error: unknown) => void;
}): () => void {
  const { db, clock } = options;
  let after = '';
  /** What was seen of each in the last round, and in the one that is under way. */
  let before = new Map<string, string>();
  let round = new Map<string, string>();
  let cancel = () => {};
  let stopped = false;

  const hasMoved = (operation: Operation): boolean => {
    const last = before.get(operation.workflow_id);
    return last !== undefined && last !== seenOf(operation);
  };

  const look = async () => {
    const ids = await runningOperations(db, after, atATime);
    const operations = await readOperations(db, ids, wholeFleet, now(clock));
    const moved = operations.filter(hasMoved);
    for (const each of operations) round.set(each.workflow_id, seenOf(each));
    after = ids.at(-1) ?? '';
    if (ids.length < atATime) {
      after = '';
      before = round;
      round = new Map();
    }
    if (moved.length > 0) await options.deliver(moved);
  };

  const tick = async () => {
    try {
      if (options.hasReaders()) await look();
      else before.clear();
    } catch (error) {
      options.onError(error);
    }
    if (!stopped) cancel = clock.after(everyMs, () => void tick());
  };
  cancel = clock.after(everyMs, () => void tick());
  return () => {
    stopped = true;
    cancel();
  };
}
