/**
 * The program of a replica that tests start and kill. It launches the engine on a database, starts
 * or recovers runs, and appends each event to a file, so that the test can read it after the kill.
 * SIGTERM halts its engine.
 */
import { appendFileSync } from 'node:fs';
import { systemClock } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import { createDbosEngine } from '../dbos-engine.ts';
import { silentLog } from '../engine-log.ts';
import { neverSettle } from '../run-journal.ts';

export interface ReplicaOptions {
  connectionString: string;
  executor_id: string;
  eventFile: string;
  start?: WorkflowId[];
  recover?: string[];
  /** The name of a step that never returns in this process. */
  hang_in?: string;
}

const options: ReplicaOptions = JSON.parse(process.argv[2] ?? '');
const write = (line: string) => appendFileSync(options.eventFile, `${options.executor_id} ${line}\n`);

const engine = createDbosEngine({
  ...options,
  clock: systemClock,
  log: silentLog,
  listener: {
    executing: async () => write('executing'),
    stepStarted: async () => {},
    stepEnded: async () => {},
    emitted: async () => {},
    ended: async (_, outcome) => write(`ended ${JSON.stringify(outcome)}`),
  },
});

engine.register({
  kind: 'replica-probe',
  revision: 1,
  async run(context) {
    const results: number[] = [];
    for (const name of ['one', 'two', 'three']) {
      const answer = await context.step(name, async () => {
        write(name);
        if (options.hang_in === name) await neverSettle();
        return process.pid;
      });
      results.push(answer);
    }
    return results;
  },
});

await engine.launch();
write('launched');
for (const workflow_id of options.start ?? [])
  await engine.start({ workflow_id, attempt: 1, kind: 'replica-probe', revision: 1, params: null });
process.on('SIGTERM', async () => {
  await engine.halt();
  write('halted');
});
if (options.recover) write(`recovered ${await engine.recover(options.recover)}`);
