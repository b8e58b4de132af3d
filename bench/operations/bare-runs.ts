/**
 * The baseline for operations: concurrent runs of empty steps on the bare engine, without evidence.
 */
import { randomUUID } from 'node:crypto';
import { systemClock } from '../../src/base/clock.ts';
import type { WorkflowId } from '../../src/base/ids.ts';
import { createDbosEngine } from '../../src/engine/dbos-engine.ts';
import { silentLog } from '../../src/engine/engine-log.ts';
import type { Database } from '../../src/store/pg/database.ts';
import { secondsOf } from '../harness/measure.ts';

const nothing = async () => {};

/** Starts all runs at once. Returns runs per second. */
export async function measureBareRuns(db: Database, count: number, steps: number): Promise<number> {
  let endedRuns = 0;
  const { promise: allEnded, resolve } = Promise.withResolvers<void>();
  const engine = createDbosEngine({
    connectionString: db.url,
    clock: systemClock,
    executor_id: 'bare',
    log: silentLog,
    listener: {
      executing: nothing,
      stepStarted: nothing,
      stepEnded: nothing,
      emitted: nothing,
      async ended() {
        if (++endedRuns === count) resolve();
      },
    },
  });
  engine.register({
    kind: 'bare',
    revision: 1,
    async run(context) {
      for (let step = 0; step < steps; step++) await context.step(`step-${step}`, nothing);
      return undefined;
    },
  });
  await engine.launch();
  try {
    const seconds = await secondsOf(async () => {
      for (let run = 0; run < count; run++)
        await engine.start({
          workflow_id: randomUUID() as WorkflowId,
          attempt: 1,
          kind: 'bare',
          revision: 1,
          params: {},
        });
      await allEnded;
    });
    return count / seconds;
  } finally {
    await engine.shutdown();
  }
}
