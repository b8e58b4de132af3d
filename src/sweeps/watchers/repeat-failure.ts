/**
 * `repeat-failure`: opens a finding when provisions of one node or of one pool spec keep failing.
 * Decides nothing.
 */
import { secondsLater } from '../../base/clock.ts';
import { newFindingId } from '../../base/ids.ts';
import { endFindings, noteDisagreements, standingFindings } from '../../store/rows/findings.ts';
import { type FailingSubject, failingSubjects, failureFindings } from '../../store/supervision/repeat-failures.ts';
import { resting } from '../runner/resting.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const keyOf = ({ what, subject }: { what: string; subject: string }) => `${what} ${subject}`;

const wakers = ['node.failed', 'pool.declared', 'pool.deleted'];

/** The count spans several passes and needs no second confirmation. */
const isConfirmed = () => true;

/** Per pass; the finding of a failing pool comes before those of its machines. */
const maxReported = 500;
/** The largest share of the time spent counting while many machines fail one after another. */
const maxShareOfTime = 0.05;

export const repeatFailure = ({ db, clock, environment }: SweepServices): Sweep => {
  const look = async (now: Date) => {
    const { failures, window_seconds } = environment.repeat_failure;
    const question = { since: secondsLater(now, -window_seconds), failures, window_seconds };
    const failing = await failingSubjects(db, question);
    const standing = new Map(
      (await standingFindings(db, ['node_provisions', 'pool_provisions'])).map((each) => [keyOf(each), each]),
    );
    const holds = new Set(failing.map(keyOf));
    const over = [...standing.values()].filter((each) => !holds.has(keyOf(each)));
    const isNews = (each: FailingSubject) => standing.get(keyOf(each))?.theirs.failures !== each.failures;
    const changed = failing.filter(isNews).sort((one, other) => other.failures - one.failures);
    const news = await failureFindings(db, changed.slice(0, maxReported), question);
    if (over.length === 0 && news.length === 0) return { decided: 0 };
    return db.transaction(async (tx) => {
      const found = news.map((each) => ({ finding_id: newFindingId(clock), ...each }));
      const opened = await noteDisagreements(tx, found, now, now, isConfirmed);
      await endFindings(tx, over, `fewer than ${failures} within ${window_seconds} s by now`, now);
      return { decided: opened.length, more: changed.length > maxReported };
    });
  };

  return {
    name: 'repeat-failure',
    every_seconds: 60,
    woken_by: (kind) => wakers.includes(kind),
    run: resting(clock, maxShareOfTime, look),
  };
};
