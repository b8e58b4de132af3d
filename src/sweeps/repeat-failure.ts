/** `repeat-failure`: opens a finding when provisions of one node, or of one pool spec, fail again and again; decides nothing. */
import { secondsLater } from '../base/clock.ts';
import { newFindingId } from '../base/ids.ts';
import { endFindings, noteDisagreements, standingFindings } from '../store/findings.ts';
import { repeatedFailures } from '../store/repeat-failures.ts';
import type { SweepServices } from './services.ts';
import type { Sweep } from './sweep.ts';

const keyOf = ({ what, subject }: { what: string; subject: string }) => `${what} ${subject}`;

const wakers = ['node.failed', 'pool.declared', 'pool.deleted'];

/** It was counted over so many passes as it lasted; nobody has to see it twice. */
const isConfirmed = () => true;

export const repeatFailure = ({ db, clock, environment }: SweepServices): Sweep => ({
  name: 'repeat-failure',
  every_seconds: 60,
  woken_by: (kind) => wakers.includes(kind),
  async run(now) {
    const { failures, window_seconds } = environment.repeat_failure;
    const since = secondsLater(now, -window_seconds);
    const failing = await repeatedFailures(db, { since, failures, window_seconds });
    const standing = new Map(
      (await standingFindings(db, ['node_provisions', 'pool_provisions'])).map((each) => [keyOf(each), each]),
    );
    const holds = new Set(failing.map(keyOf));
    const over = [...standing.values()].filter((each) => !holds.has(keyOf(each)));
    const news = failing.filter((each) => standing.get(keyOf(each))?.theirs.failures !== each.theirs.failures);
    if (over.length === 0 && news.length === 0) return { decided: 0 };
    return db.transaction(async (tx) => {
      const found = news.map((each) => ({ finding_id: newFindingId(clock), ...each }));
      const opened = await noteDisagreements(tx, found, now, now, isConfirmed);
      await endFindings(tx, over, `fewer than ${failures} within ${window_seconds} s by now`, now);
      return { decided: opened.length };
    });
  },
});
