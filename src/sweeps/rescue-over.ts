/** `rescue-over`: failed → cleaning, when the rescue window ended; the machine is then destroyed with proof. */

import { retireIn } from '../operations/node-retire.ts';
import { lockDueNodes } from '../store/due.ts';
import type { SweepServices } from './services.ts';
import type { Sweep } from './sweep.ts';

const batch = 100;

export const rescueOver = (services: SweepServices): Sweep => ({
  name: 'rescue-over',
  every_seconds: 1,
  run: (now) =>
    services.db.transaction(async (tx) => {
      const due = await lockDueNodes(tx, 'failed', now, batch);
      let decided = 0;
      for (const node of due)
        if (await retireIn(tx, services, node, { by: 'rescue-over', reason: 'its rescue window ended' }, now))
          decided++;
      return { decided, more: due.length === batch };
    }),
});
