/** `counts`: folds changes into the counts and, every hour, verifies them against the rows. */
import { secondsLater } from '../../base/clock.ts';
import { foldCounts, repairCounts } from '../../store/rows/counts.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** Verifying reads every row, and counts are wrong only if triggers were bypassed. */
const verifyEverySeconds = 3600;

export function counts({ db }: SweepServices): Sweep {
  let nextVerification: Date | undefined;
  return {
    name: 'counts',
    runsAfterRestore: true,
    every_seconds: 10,
    async run(now) {
      await foldCounts(db);
      if (nextVerification && now < nextVerification) return { decided: 0 };
      nextVerification = secondsLater(now, verifyEverySeconds);
      return { decided: (await db.transaction((tx) => repairCounts(tx, now))).length };
    },
  };
}
