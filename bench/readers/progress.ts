/**
 * Measures how long progress takes to reach the clients of an event stream, from the call that
 * publishes it on another replica until a client has received it. Compares 20 clients with 200.
 * Exits with 1 if the p99 is too high.
 */
import { readFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { now, pause, secondsLater, systemClock } from '../../src/base/clock.ts';
import { newCorrelationId, newReplicaId, newWorkflowId } from '../../src/base/ids.ts';
import { startTail } from '../../src/store/evidence/tail.ts';
import { becomeExecutor } from '../../src/store/operations/executions.ts';
import { publishProgress } from '../../src/store/operations/publish-progress.ts';
import { queueOperation } from '../../src/store/operations/queue-operation.ts';
import { registerReplica } from '../../src/store/operations/replicas.ts';
import { startBenchServer } from '../harness/bench-database.ts';
import { freshDirectory, removeDirectory } from '../harness/leftovers.ts';
import { type Figure, median, quantile, report } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { startWithNpm } from '../harness/server-process.ts';
import { openWatchers } from './stream-clients.ts';

const options = readOptions(import.meta.url, {
  duration: 'about a minute',
  options: { quick: common.quick, json: common.json },
});
const { quick } = options;
const clients = [20, 200];
const publications = quick ? 50 : 200;
const targetMs = 1_000;
const restMs = 20;

const loadBefore = loadavg();
const postgres = await startBenchServer(1);
const directory = await freshDirectory();
const figures: Figure[] = [];
const p99s: number[] = [];
try {
  const db = await postgres.database('progress');
  const server = await startWithNpm(directory, ['--database-url', db.url]);
  const token = (await readFile(join(directory, 'admin.token'), 'utf8')).trim();
  const tail = await startTail({ db, clock: systemClock, onError: (error) => process.stderr.write(`${error}\n`) });
  db.whenEvidence(() => tail.nudge());
  try {
    const at = now(systemClock);
    const where = { host: 'bench', pid: process.pid, address: 'http://bench', version: '0' };
    const lease = { started_at: at, lease_until: secondsLater(at, 3600) };
    const executor = await registerReplica(db, { ...where, ...lease, replica_id: newReplicaId(systemClock) });
    const run = { workflow_id: newWorkflowId(systemClock), attempt: 1 };
    const steps = ['first', 'second'].map((name) => ({ name, label: name, usual_seconds: 60, within_seconds: null }));
    const operation = { ...run, kind: 'bench', revision: 1, tenant: null, actor: null, params: {}, steps };
    await db.transaction(async (tx) => {
      await queueOperation(tx, { ...operation, correlation_id: newCorrelationId() }, at);
      // Assigned to this process, so that the server treats it as another replica's operation.
      await tx.query(`update operations set status = 'running', replica_id = $2 where workflow_id = $1`, [
        run.workflow_id,
        executor.replica_id,
      ]);
    });
    await becomeExecutor(db, run, executor, at);

    const medians: number[] = [];
    for (const count of clients) {
      const watchers = await openWatchers(server.url, token, count);
      const durations: number[] = [];
      for (let turn = -5; turn < publications; turn++) {
        const message = `progress ${count}/${turn}.`;
        const arrivals = watchers.wait(message);
        await publishProgress(db, run, { message }, executor, now(systemClock));
        const arrivalsMs = await arrivals;
        if (turn >= 0) durations.push(...arrivalsMs);
        await pause(systemClock, restMs);
      }
      watchers.close();
      medians.push(median(durations));
      p99s.push(quantile(durations, 0.99));
      figures.push(
        { what: `${count} clients: from the call to a client, p50`, value: median(durations), unit: 'ms' },
        { what: '… p99', value: quantile(durations, 0.99), unit: 'ms', target: targetMs },
        { what: '… max', value: quantile(durations, 1), unit: 'ms' },
      );
    }
    const [few = Number.NaN, many = Number.NaN] = medians;
    figures.push({ what: `p50: ${clients[1]} clients / ${clients[0]} clients`, value: many / few, unit: '×' });
  } finally {
    await tail.stop();
    await server.stop();
  }
} finally {
  await postgres.stop();
  await removeDirectory(directory);
}
report(options, 'progress', figures, loadBefore, {
  medianOf: 'one run',
  notes: [`p50, p99 and max are over ${publications} publications to each client`],
  jsonToo: true,
});
process.exitCode = p99s.some((ms) => ms > targetMs) ? 1 : 0;
