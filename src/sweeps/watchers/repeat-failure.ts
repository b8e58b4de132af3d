/**
 * `repeat-failure`: opens a finding when provisions of one node or of one pool spec keep failing.
 * Decides nothing.
 */
import { secondsLater } from '../../base/clock.ts';
import { newFindingId } from '../../base/ids.ts';
import { endFindings, noteDisagreements, standingFindings } from '../../store/rows/findings.ts';
import {
  buildFailureFindings,
  type FailingSubject,
  findFailingSubjects,
} from '../../store/supervision/repeat-failures.ts';
import { restBetweenPasses } from '../runner/rest-between-passes.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const keyOf = ({ what, subject }: { what: string; subject: string }) => `${what} ${subject}`;

const wakingKinds = ['node.failed', 'pool.declared', 'pool.deleted'];

/** One pass is enough, because a finding is based on several failures. */
const isConfirmed = () => true;

/** The limit per pass. The subjects with the most failures, usually pools, come first. */
const maxReported = 500;
/** The sweep runs at most this share of the time while many machines fail one after another. */
const maxShareOfTime = 0.05;

export const repeatFailure = ({ db, clock, environment }: SweepServices): Sweep => {
  const run = async (now: Date) => {
    const { failures, window_seconds } = environment.repeat_failure;
    const query = { since: secondsLater(now, -window_seconds), min_failures: failures, window_seconds };
    const failing = await findFailingSubjects(db, query);
    const standing = new Map(
      (await standingFindings(db, ['node_provisions', 'pool_provisions'])).map((each) => [keyOf(each), each]),
    );
    const failingKeys = new Set(failing.map(keyOf));
    const outdated = [...standing.values()].filter((each) => !failingKeys.has(keyOf(each)));
    const isChanged = (each: FailingSubject) => standing.get(keyOf(each))?.theirs.failures !== each.failures;
    const changed = failing.filter(isChanged).sort((one, other) => other.failures - one.failures);
    const disagreements = await buildFailureFindings(db, changed.slice(0, maxReported), query);
    if (outdated.length === 0 && disagreements.length === 0) return { decided: 0 };
    return db.transaction(async (tx) => {
      const findings = disagreements.map((each) => ({ finding_id: newFindingId(clock), ...each }));
      const opened = await noteDisagreements(tx, findings, now, now, isConfirmed);
      await endFindings(tx, outdated, `fewer than ${failures} failures within ${window_seconds} s now`, now);
      return { decided: opened.length, more: changed.length > maxReported };
    });
  };

  return {
    name: 'repeat-failure',
    every_seconds: 60,
    isWokenBy: (kind) => wakingKinds.includes(kind),
    run: restBetweenPasses(clock, maxShareOfTime, run),
  };
};
