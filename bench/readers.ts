/**
 * Measures event streams with a thousand readers and five hundred changes per second: the time from
 * the start of a change's transaction until a reader has received the change, and the effect of one
 * reader that stops reading. The baseline is a bare server that sends the same number of bytes. The
 * changes are made outside the server, like those of another replica. Exits with 1 if the p99 is
 * too high, or if an active reader was disconnected.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { streamShares } from '../src/api/limits/held/places.ts';
import { now, pause, systemClock } from '../src/base/clock.ts';
import type { NodeId } from '../src/base/ids.ts';
import { createClient } from '../src/contract/client.ts';
import { routes } from '../src/contract/routes.ts';
import { startTail } from '../src/store/evidence/tail.ts';
import type { Database } from '../src/store/pg/database.ts';
import type { NodeMove } from '../src/store/transitions/node-move.ts';
import { transition } from '../src/store/transitions/node-transition.ts';
import { defaultEnvironment } from '../src/store/transitions/transition-rules.ts';
import { processorSeconds } from './beats/processor-time.ts';
import { startBenchServer } from './harness/bench-database.ts';
import { freshDirectory, removeDirectory } from './harness/leftovers.ts';
import { type Figure, report } from './harness/measure.ts';
import { common, readOptions } from './harness/options.ts';
import { fillFleet } from './harness/resting-fleet.ts';
import { startReplica } from './harness/server-process.ts';
import type { Fanout } from './readers/bare-fanout.ts';
import type { Command, Crowd, CrowdResult } from './readers/reader-crowd.ts';

const options = readOptions(import.meta.url, {
  duration: 'about two and a half minutes; with --quick one',
  options: { quick: common.quick, json: common.json },
});
const { quick } = options;
const many = 1_000;
const few = 10;
const changesPerSecond = 500;
const changesAtOnce = 10;
const fleetSize = 5_000;
const seconds = quick ? 8 : 30;
const warmUpMs = 2_000;
const targetMs = 500;

const say = (message: string) => process.stderr.write(`${message}\n`);
const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url));

interface MeasuredServer {
  url: string;
  pid: number;
  token: string;
  /** The tokens of the readers. */
  tokens: string[];
}

interface Outcome extends CrowdResult {
  server_cpu_seconds: number;
  seconds: number;
}

async function ask<T>(child: ChildProcess, message: object): Promise<T> {
  const answered = once(child, 'message') as Promise<[T | string]>;
  child.send(message);
  const [answer] = await answered;
  if (typeof answer === 'string') throw new Error(answer);
  return answer;
}

/** Connects a crowd of readers to the server and measures them for a while. */
async function measureReaders(
  { url, pid, tokens }: MeasuredServer,
  readers: Pick<Crowd, 'readers' | 'stuck' | 'path'>,
): Promise<Outcome> {
  const crowd = fork(pathOf('readers/reader-crowd.ts'));
  const command = <T>(message: Command) => ask<T>(crowd, message);
  try {
    await command({ open: { url, tokens, ...readers } });
    await pause(systemClock, warmUpMs);
    await command({ measure: 'begin' });
    const [startedMs, cpu] = [systemClock.monotonicMs(), processorSeconds(pid)];
    await pause(systemClock, seconds * 1000);
    const result = await command<CrowdResult>({ measure: 'end' });
    const elapsed = (systemClock.monotonicMs() - startedMs) / 1000;
    const outcome = { ...result, seconds: elapsed, server_cpu_seconds: processorSeconds(pid) - cpu };
    await command({ close: true });
    return outcome;
  } finally {
    crowd.disconnect();
  }
}

/** Makes nodes degraded and ready again, at a steady rate. */
function startChanges(db: Database, ids: readonly NodeId[]) {
  let isStopped = false;
  let changed = 0;
  let maxLateMs = 0;
  const everyMs = (1000 * changesAtOnce) / changesPerSecond;
  const running = (async () => {
    const startedMs = systemClock.monotonicMs();
    for (let turn = 0; !isStopped; turn++) {
      const remainingMs = startedMs + turn * everyMs - systemClock.monotonicMs();
      if (remainingMs > 0) await pause(systemClock, remainingMs);
      maxLateMs = Math.max(maxLateMs, -remainingMs);
      const first = (turn * changesAtOnce) % ids.length;
      const isReturn = Math.floor((turn * changesAtOnce) / ids.length) % 2 === 1;
      const moves = ids
        .slice(first, first + changesAtOnce)
        .map(
          (node_id): NodeMove =>
            isReturn
              ? { node_id, to: 'ready', by: 'heartbeat-returned', reason: 'its errors are few again' }
              : { node_id, to: 'degraded', by: 'degraded', reason: 'its errors crossed the threshold' },
        );
      const at = now(systemClock);
      const outcomes = await db.transaction((tx) => transition(tx, moves, at, defaultEnvironment));
      changed += outcomes.filter(({ moved }) => moved).length;
    }
    return (changed * 1000) / (systemClock.monotonicMs() - startedMs);
  })();
  return {
    async stop() {
      isStopped = true;
      return { per_second: await running, late_ms: maxLateMs };
    },
  };
}

/** Creates several tokens, because one token may hold only a part of a replica's streams. */
async function readerTokens(url: string, admin: string): Promise<string[]> {
  const client = createClient({ base_url: url, token: admin, addresses: routes });
  const names = Array.from({ length: Math.ceil((many + 1) / streamShares.one_token) }, (_, i) => `reader-${i}`);
  return Promise.all(
    names.map(async (name) => (await client.call('token-create', { body: { name, role: 'viewer' } })).token ?? ''),
  );
}

/** Reads the server's own metrics: how long each part of serving readers has taken so far. */
async function readStreamMetrics({ url, token }: MeasuredServer): Promise<Map<string, number>> {
  const text = await (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } })).text();
  return new Map(
    [...text.matchAll(/^slipway_stream_(\w+?)(?:\{part="(\w+)"\})? (\S+)$/gm)].map(([, name, part, value]) => [
      part ?? name ?? '',
      Number(value),
    ]),
  );
}

/** The baseline: a bare server sends as many bytes per second to as many readers. */
async function measureBareServer(outcome: Outcome, readers: number): Promise<Outcome> {
  const child = fork(pathOf('readers/bare-fanout.ts'));
  try {
    const [port] = (await once(child, 'message')) as [number];
    const every_ms = 20;
    const perReader = outcome.bytes / readers / outcome.seconds;
    const fanout: Fanout = { chunk_bytes: Math.round((perReader * every_ms) / 1000), every_ms };
    await ask(child, fanout);
    const served = { url: `http://127.0.0.1:${port}`, pid: child.pid ?? 0, token: 'none', tokens: ['none'] };
    return await measureReaders(served, { readers, stuck: 0, path: '/' });
  } finally {
    child.disconnect();
  }
}

/** Labels for the parts of `slipway_stream_seconds_total`. */
const partLabels = {
  tail: 'until the server read the first change',
  gather: 'waiting for more changes',
  join: 'adding related data',
  render: 'rendering',
  write: 'writing to readers',
};

const figures: Figure[] = [];
const failures: string[] = [];
const checkOutcome = (what: string, { p99_ms, lost }: Outcome) => {
  if (p99_ms > targetMs) failures.push(`${what}: p99 is ${p99_ms.toFixed(0)} ms, target < ${targetMs} ms`);
  if (lost > 0) failures.push(`${what}: the server disconnected ${lost} active readers`);
};
function addFigures(what: string, outcome: Outcome, target?: number): void {
  const mbPerSecond = outcome.bytes / 2 ** 20 / outcome.seconds;
  say(`${what}: ${outcome.samples} samples, ${mbPerSecond.toFixed(1)} MB/s, ${outcome.lost} disconnected`);
  figures.push(
    { what: `${what}: from a change to a reader, p50`, value: outcome.p50_ms, unit: 'ms' },
    { what: '… p99', value: outcome.p99_ms, unit: 'ms', ...(target && { target }) },
    { what: '… max', value: outcome.max_ms, unit: 'ms' },
    {
      what: '… CPU time of the server, per second',
      value: outcome.server_cpu_seconds / outcome.seconds,
      unit: 's',
    },
    { what: '… CPU time of the readers, per second', value: outcome.cpu_seconds / outcome.seconds, unit: 's' },
    { what: '… sent per second', value: mbPerSecond, unit: 'MB' },
  );
}

const loadBefore = loadavg();
const postgres = await startBenchServer(1);
const directory = await freshDirectory();
try {
  const db = await postgres.database('readers');
  await fillFleet(db, { idle: fleetSize, inFlight: 0 });
  const ids = (await db.query<{ node_id: NodeId }>('select node_id from nodes order by md5(node_id)')).map(
    (row) => row.node_id,
  );
  const replica = await startReplica(directory, ['--database-url', db.url], {});
  const token = (await readFile(join(directory, 'admin.token'), 'utf8')).trim();
  const tokens = await readerTokens(replica.url, token);
  const server = { url: replica.url, pid: replica.pid, token, tokens };
  const tail = await startTail({ db, clock: systemClock, onError: (error) => say(String(error)) });
  db.whenEvidence(() => tail.nudge());
  const changes = startChanges(db, ids);
  try {
    const path = '/v1/stream';
    const fewReaders = await measureReaders(server, { readers: few, stuck: 0, path });
    addFigures(`${few} readers`, fewReaders);
    const before = await readStreamMetrics(server);
    const crowd = await measureReaders(server, { readers: many, stuck: 0, path });
    const after = await readStreamMetrics(server);
    addFigures(`${many} readers`, crowd, targetMs);
    checkOutcome(`${many} readers`, crowd);
    const growthOf = (part: string) => (after.get(part) ?? Number.NaN) - (before.get(part) ?? 0);
    const batches = growthOf('batches_total');
    const factsPerBatch = (growthOf('facts_total') / batches).toFixed(0);
    say(`${batches} batches of ${factsPerBatch} facts, ${growthOf('dropped_total')} readers dropped`);
    for (const [part, label] of Object.entries(partLabels))
      figures.push({ what: `… per batch: ${label}`, value: (growthOf(part) * 1000) / batches, unit: 'ms' });
    const withStuck = await measureReaders(server, { readers: many + 1, stuck: 1, path });
    addFigures(`${many} readers and a stuck one`, withStuck, targetMs);
    checkOutcome(`${many} readers and a stuck one`, withStuck);
    const { per_second, late_ms } = await changes.stop();
    say(`${per_second.toFixed(0)} changes per second; the most delayed one began ${late_ms.toFixed(0)} ms late`);
    const baseline = await measureBareServer(crowd, many);
    addFigures(`bare server (baseline), ${many} readers`, baseline);
    figures.push(
      { what: `p99: ${many} readers / ${few} readers`, value: crowd.p99_ms / fewReaders.p99_ms, unit: '×' },
      { what: 'p99: with a stuck reader / without', value: withStuck.p99_ms / crowd.p99_ms, unit: '×' },
      { what: 'p99: this server / bare server', value: crowd.p99_ms / baseline.p99_ms, unit: '×' },
      {
        what: 'CPU time of the server per megabyte: this server / bare server',
        value: crowd.server_cpu_seconds / crowd.bytes / (baseline.server_cpu_seconds / baseline.bytes),
        unit: '×',
      },
    );
  } finally {
    await changes.stop();
    await tail.stop();
    await replica.stop();
  }
} finally {
  await postgres.stop();
  await removeDirectory(directory);
}
report(options, 'readers', figures, loadBefore, { medianOf: `one run of ${seconds} s each`, jsonToo: true });
for (const failure of failures) say(`failed: ${failure}`);
process.exitCode = failures.length > 0 ? 1 : 0;
