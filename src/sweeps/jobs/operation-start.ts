/**
 * `operation-start`: hands queued operations to this replica's engine. An operation stays a queued
 * row until its start is committed, and the engine starts a run only once. So a crash neither loses
 * nor repeats an operation.
 */
import type { Json } from '../../engine/engine.ts';
import { lockQueuedOperations, markStarted } from '../../store/operations/executions.ts';
import { delayUpdates } from '../../store/operations/operation-updates.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** Small, because a started run waits until the whole batch is committed. */
const batch = 16;

export const operationStart = ({ db, engine, executor }: SweepServices): Sweep => ({
  name: 'operation-start',
  every_seconds: 5,
  isWokenBy: (kind) => kind === 'operation.queued',
  async run(now) {
    const { promise: transactionEnd, resolve } = Promise.withResolvers<void>();
    try {
      return await db.transaction(async (tx) => {
        // Operations that this replica's version cannot run are left to other replicas.
        const queued = await lockQueuedOperations(tx, batch, engine.registered());
        const ids = queued.map(({ workflow_id }) => workflow_id);
        delayUpdates(db, ids, transactionEnd);
        await Promise.all(
          queued.map(({ workflow_id, attempt, kind, revision, params }) =>
            engine.start({ workflow_id, attempt, kind, revision, params: params as Json }),
          ),
        );
        await markStarted(tx, ids, executor, now);
        return { decided: queued.length, more: queued.length === batch };
      });
    } finally {
      resolve();
    }
  },
});
