/** `brake-watch`: lets go of nodes whose hold is over, ends holds that hold nobody, and forgets old tallies. */
import { secondsLater } from '../base/clock.ts';
import { holdingRules } from '../lifecycle/rules.ts';
import { endHolds, forgetTally, freeHeldNodes } from '../store/brake.ts';
import type { SweepServices } from './services.ts';
import type { Sweep } from './sweep.ts';

const batch = 500;
/** A hold that was just opened may not have held anybody yet. */
const settlesInSeconds = 5;

const wakers = ['brake.resumed', 'maintenance.ended', 'maintenance.declared'];

export const brakeWatch = ({ db }: SweepServices): Sweep => ({
  name: 'brake-watch',
  every_seconds: 1,
  woken_by: (kind) => wakers.includes(kind),
  async run(now) {
    const freed = await db.transaction((tx) => freeHeldNodes(tx, now, batch));
    await db.transaction((tx) => endHolds(tx, holdingRules, secondsLater(now, -settlesInSeconds), now));
    await forgetTally(db, now);
    return { decided: freed, more: freed === batch };
  },
});
