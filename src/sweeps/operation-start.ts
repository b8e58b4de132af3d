/**
 * `operation-start`: starts every queued operation. The request wrote the row, this hands it to the engine; the engine
 * starts a run once however often it is asked, so a crash between the two leaves nothing behind and nothing twice.
 */
import type { Json } from '../engine/engine.ts';
import { queuedOperations } from '../store/executions.ts';
import type { SweepServices } from './registry.ts';
import type { Sweep } from './sweep.ts';

const batch = 50;

export const operationStart = ({ db, engine }: SweepServices): Sweep => ({
  name: 'operation-start',
  every_seconds: 5,
  woken_by: (kind) => kind === 'operation.queued',
  async run() {
    const started = await db.transaction(async (tx) => {
      const queued = await queuedOperations(tx, batch);
      for (const { workflow_id, attempt, kind, revision, params } of queued) {
        await engine.start({ workflow_id, attempt, kind, revision, params: params as Json });
      }
      return queued.length;
    });
    // A started run marks its own row; until it has, the row is seen again and starting it again changes nothing.
    return { decided: started };
  },
});
