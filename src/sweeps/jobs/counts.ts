/** `counts`: folds changes into the counts and, every hour, verifies them against the rows. */
import { secondsLater } from '../../base/clock.ts';
import { foldCounts, repairCounts } from '../../store/rows/counts.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** Counts are wrong only if someone bypassed the triggers; verifying reads every row once. */
const verifyEverySeconds = 3600;

export function counts({ db }: SweepServices): Sweep {
  let nextLook: Date | undefined;
  return {
    name: 'counts',
    every_seconds: 10,
    async run(now) {
      await foldCounts(db);
      if (nextLook && now < nextLook) return { decided: 0 };
      nextLook = secondsLater(now, verifyEverySeconds);
      return { decided: (await db.transaction((tx) => repairCounts(tx, now))).length };
    },
  };
}
