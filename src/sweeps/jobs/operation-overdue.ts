/**
 * `operation-overdue`: cancels operations whose step takes too long. The node or allocation has its
 * own deadline and rule; this job only ends operations that are stuck.
 */
import { stopOverdue } from '../../store/operations/executions.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const batch = 50;

export const operationOverdue = ({ db, cancelRun }: SweepServices): Sweep => ({
  name: 'operation-overdue',
  every_seconds: 10,
  async run(now) {
    const stopped = await db.transaction((tx) => stopOverdue(tx, now, batch));
    for (const { workflow_id, attempt } of stopped) await cancelRun(workflow_id, attempt);
    return { decided: stopped.length, more: stopped.length === batch };
  },
});
