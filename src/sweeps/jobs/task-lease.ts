/**
 * `task-lease`: leased → queued when a lease expires; → failed after too many expiries or if the
 * task is too old.
 */
import { expireLeases } from '../../store/agents/tasks.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const batch = 500;

export const taskLease = ({ db }: SweepServices): Sweep => ({
  name: 'task-lease',
  every_seconds: 1,
  run: (now) =>
    db.transaction(async (tx) => {
      const decided = await expireLeases(tx, now, batch);
      return { decided, more: decided === batch };
    }),
});
