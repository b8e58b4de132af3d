/**
 * `brake-watch`: pauses launches in pools and zones with a mass failure, releases nodes whose hold
 * is over, ends holds without nodes, and deletes old counts of verdicts.
 */
import { secondsLater } from '../../base/clock.ts';
import { storedThroughOf } from '../../lifecycle/brake/brake.ts';
import { holdingRules } from '../../lifecycle/model/rules.ts';
import { deleteOldTally, endHolds, liftNodeHolds } from '../../store/supervision/brake.ts';
import { readStoredThrough } from '../../store/supervision/ingest-gaps.ts';
import { hasCaughtUp } from '../rules/liveness.ts';
import { pauseLaunches } from '../runner/apply-brake.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const batch = 500;
/** A hold that was just opened may not hold any node yet, so it is not ended as empty. */
const minHoldSeconds = 5;

const wakingKinds = ['node.failed', 'brake.resumed', 'maintenance.ended', 'maintenance.declared'];

export const brakeWatch = ({ db, clock, environment }: SweepServices): Sweep => ({
  name: 'brake-watch',
  every_seconds: 2,
  isWokenBy: (kind) => wakingKinds.includes(kind),
  async run(now) {
    const { brake } = environment;
    await db.transaction((tx) => pauseLaunches(tx, { clock, environment }, now));
    const isIngestCurrent = hasCaughtUp(storedThroughOf(await readStoredThrough(db, now), brake, now), now);
    const released = await db.transaction((tx) => liftNodeHolds(tx, now, batch, isIngestCurrent));
    const limits = {
      opened_before: secondsLater(now, -minHoldSeconds),
      resumed_before: secondsLater(now, -brake.window_seconds),
    };
    await db.transaction((tx) => endHolds(tx, holdingRules, limits, now));
    await deleteOldTally(db, now);
    return { decided: released, more: released === batch };
  },
});
