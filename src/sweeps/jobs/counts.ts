/** `counts`: puts together what changes have added to the counts, and now and then holds them against the rows and puts them right. */
import { secondsLater } from '../../base/clock.ts';
import { foldCounts, repairCounts } from '../../store/rows/counts.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** They can only be wrong where somebody wrote around the triggers; looking reads every row once. */
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
