/**
 * How long progress takes to reach a watcher: from the publishing call on another replica through
 * transaction, evidence and stream until a client has read it, and with ten times as many clients.
 * Exits with 1 if 1 % wait too long.
 */
import { readFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { now, pause, secondsLater, systemClock } from '../../src/base/clock.ts';
import { newCorrelationId, newReplicaId, newWorkflowId } from '../../src/base/ids.ts';
import { startTail } from '../../src/store/evidence/tail.ts';
import { claimExecution } from '../../src/store/operations/executions.ts';
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
  takes: 'about a minute',
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
const slowest: number[] = [];
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
    const fresh = { ...run, kind: 'bench', revision: 1, tenant: null, actor: null, params: {}, steps };
    await db.transaction(async (tx) => {
      await queueOperation(tx, { ...fresh, correlation_id: newCorrelationId() }, at);
      // Started here, so that the server takes it for another replica's operation.
      await tx.query(`update operations set status = 'running', replica_id = $2 where workflow_id = $1`, [
        run.workflow_id,
        executor.replica_id,
      ]);
    });
    await claimExecution(db, run, executor, at);

    const medians: number[] = [];
    for (const count of clients) {
      const watchers = await openWatchers(server.url, token, count);
      const durations: number[] = [];
      for (let turn = -5; turn < publications; turn++) {
        const message = `word ${count}/${turn}.`;
        const waited = watchers.wait(message);
        await publishProgress(db, run, { message }, executor, now(systemClock));
        const all = await waited;
        if (turn >= 0) durations.push(...all);
        await pause(systemClock, restMs);
      }
      watchers.close();
      medians.push(median(durations));
      slowest.push(quantile(durations, 0.99));
      figures.push(
        { what: `${count} clients: from the call to a client, half of them`, value: median(durations), unit: 'ms' },
        { what: '… 99 of 100', value: quantile(durations, 0.99), unit: 'ms', target: targetMs },
        { what: '… all', value: quantile(durations, 1), unit: 'ms' },
      );
    }
    const [few = Number.NaN, many = Number.NaN] = medians;
    figures.push({ what: 'ten times the clients', value: many / few, unit: '×' });
  } finally {
    await tail.stop();
    await server.stop();
  }
} finally {
  await postgres.stop();
  await removeDirectory(directory);
}
report(options, 'progress', figures, loadBefore, { medianOf: `${publications} publications`, jsonToo: true });
process.exitCode = slowest.some((ms) => ms > targetMs) ? 1 : 0;
