/**
 * A thousand stream readers during five hundred changes per second: how long after the start of a
 * change's transaction each has read it, the effect of a reader that stops reading, and a
 * comparison with a bare server that sends the same bytes. Changes are made in another process,
 * like those of another replica. Exits with 1 if 1 % wait too long, or an active reader was
 * disconnected.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
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
import { startBenchServer } from './harness/bench-database.ts';
import { freshDirectory, removeDirectory } from './harness/leftovers.ts';
import { type Figure, report } from './harness/measure.ts';
import { common, readOptions } from './harness/options.ts';
import { fillFleet } from './harness/resting-fleet.ts';
import { startReplica } from './harness/server-process.ts';
import type { Fanout } from './readers/bare-fanout.ts';
import type { Command, Crowd, Heard } from './readers/reader-crowd.ts';

const options = readOptions(import.meta.url, {
  takes: 'about two and a half minutes; with --quick one',
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

const say = (what: string) => process.stderr.write(`${what}\n`);
const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const workSeconds = (pid: number) => Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e9;

interface Served {
  url: string;
  pid: number;
  token: string;
  /** Of the readers. */
  tokens: string[];
}

interface Outcome extends Heard {
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

/** Runs one crowd of readers for a while. */
async function watch({ url, pid, tokens }: Served, of: Pick<Crowd, 'readers' | 'stuck' | 'path'>): Promise<Outcome> {
  const crowd = fork(here('readers/reader-crowd.ts'));
  const tell = <T>(command: Command) => ask<T>(crowd, command);
  try {
    await tell({ open: { url, tokens, ...of } });
    await pause(systemClock, warmUpMs);
    await tell({ measure: 'begin' });
    const [began, cpu] = [systemClock.monotonicMs(), workSeconds(pid)];
    await pause(systemClock, seconds * 1000);
    const heard = await tell<Heard>({ measure: 'end' });
    const took = (systemClock.monotonicMs() - began) / 1000;
    const outcome = { ...heard, seconds: took, server_cpu_seconds: workSeconds(pid) - cpu };
    await tell({ close: true });
    return outcome;
  } finally {
    crowd.disconnect();
  }
}

/** Nodes become degraded and ready again at a steady pace. */
function startChanges(db: Database, ids: readonly NodeId[]) {
  let stopped = false;
  let changed = 0;
  let late = 0;
  const everyMs = (1000 * changesAtOnce) / changesPerSecond;
  const running = (async () => {
    const began = systemClock.monotonicMs();
    for (let turn = 0; !stopped; turn++) {
      const dueMs = began + turn * everyMs - systemClock.monotonicMs();
      if (dueMs > 0) await pause(systemClock, dueMs);
      late = Math.max(late, -dueMs);
      const first = (turn * changesAtOnce) % ids.length;
      const back = Math.floor((turn * changesAtOnce) / ids.length) % 2 === 1;
      const moves = ids
        .slice(first, first + changesAtOnce)
        .map(
          (node_id): NodeMove =>
            back
              ? { node_id, to: 'ready', by: 'heartbeat-returned', reason: 'its errors are few again' }
              : { node_id, to: 'degraded', by: 'degraded', reason: 'its errors crossed the threshold' },
        );
      const at = now(systemClock);
      const outcomes = await db.transaction((tx) => transition(tx, moves, at, defaultEnvironment));
      changed += outcomes.filter(({ moved }) => moved).length;
    }
    return (changed * 1000) / (systemClock.monotonicMs() - began);
  })();
  return {
    async stop() {
      stopped = true;
      return { per_second: await running, late_ms: late };
    },
  };
}

/** One token may hold only a part of a replica's streams. */
async function readerTokens(url: string, admin: string): Promise<string[]> {
  const client = createClient({ base_url: url, token: admin, addresses: routes });
  const names = Array.from({ length: Math.ceil((many + 1) / streamShares.one_token) }, (_, i) => `reader-${i}`);
  return Promise.all(
    names.map(async (name) => (await client.call('token-create', { body: { name, role: 'viewer' } })).token ?? ''),
  );
}

/** The server's own metrics: how long each part of serving readers has taken so far. */
async function partsOf({ url, token }: Served): Promise<Map<string, number>> {
  const text = await (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } })).text();
  return new Map(
    [...text.matchAll(/^slipway_stream_(\w+?)(?:\{part="(\w+)"\})? (\S+)$/gm)].map(([, name, part, value]) => [
      part ?? name ?? '',
      Number(value),
    ]),
  );
}

/** The same bytes in the same pieces, from a bare server. */
async function bare(like: Outcome, readers: number): Promise<Outcome> {
  const child = fork(here('readers/bare-fanout.ts'));
  try {
    const [port] = (await once(child, 'message')) as [number];
    const every_ms = 20;
    const perReader = like.bytes / readers / like.seconds;
    const fanout: Fanout = { piece_bytes: Math.round((perReader * every_ms) / 1000), every_ms };
    await ask(child, fanout);
    const served = { url: `http://127.0.0.1:${port}`, pid: child.pid ?? 0, token: 'none', tokens: ['none'] };
    return await watch(served, { readers, stuck: 0, path: '/' });
  } finally {
    child.disconnect();
  }
}

const figures: Figure[] = [];
const broken: string[] = [];
const judge = (what: string, { p99_ms, lost }: Outcome) => {
  if (p99_ms > targetMs) broken.push(`${what}: 1 in 100 waits ${p99_ms.toFixed(0)} ms`);
  if (lost > 0) broken.push(`${what}: ${lost} who were reading were let go`);
};
function tell(what: string, outcome: Outcome, target?: number): void {
  const perReader = outcome.bytes / 1024 / outcome.seconds;
  say(`${what}: ${outcome.samples} looks, ${(perReader / 1024).toFixed(1)} MB/s, ${outcome.lost} lost`);
  figures.push(
    { what: `${what}: from a change to a reader, half of them`, value: outcome.half_ms, unit: 'ms' },
    { what: '… 99 of 100', value: outcome.p99_ms, unit: 'ms', ...(target && { target }) },
    { what: '… all', value: outcome.most_ms, unit: 'ms' },
    {
      what: '… the server had a processor, of each second',
      value: outcome.server_cpu_seconds / outcome.seconds,
      unit: 's',
    },
    { what: '… so had the readers', value: outcome.cpu_seconds / outcome.seconds, unit: 's' },
    { what: '… sent each second', value: outcome.bytes / 2 ** 20 / outcome.seconds, unit: 'MB' },
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
    const alone = await watch(server, { readers: few, stuck: 0, path });
    tell(`${few} readers`, alone);
    const before = await partsOf(server);
    const crowd = await watch(server, { readers: many, stuck: 0, path });
    const after = await partsOf(server);
    tell(`${many} readers`, crowd, targetMs);
    judge(`${many} readers`, crowd);
    const grown = (part: string) => (after.get(part) ?? Number.NaN) - (before.get(part) ?? 0);
    const batches = grown('batches_total');
    say(`${batches} batches of ${(grown('facts_total') / batches).toFixed(0)} facts, ${grown('dropped_total')} let go`);
    for (const part of ['tail', 'gather', 'join', 'render', 'write'])
      figures.push({ what: `… of a batch: ${part}`, value: (grown(part) * 1000) / batches, unit: 'ms' });
    const withStuck = await watch(server, { readers: many + 1, stuck: 1, path });
    tell(`${many} and one who is stuck`, withStuck, targetMs);
    judge('beside one who is stuck', withStuck);
    const { per_second, late_ms } = await changes.stop();
    say(`changes each second: ${per_second.toFixed(0)}; the latest began ${late_ms.toFixed(0)} ms late`);
    const least = await bare(crowd, many);
    tell(`a bare server, ${many} readers`, least);
    figures.push(
      { what: `99 of 100: ${many} readers / ${few} readers`, value: crowd.p99_ms / alone.p99_ms, unit: '×' },
      { what: '99 of 100: with one who is stuck / without', value: withStuck.p99_ms / crowd.p99_ms, unit: '×' },
      { what: '99 of 100: ours / a bare server', value: crowd.p99_ms / least.p99_ms, unit: '×' },
      {
        what: 'work of the server for a megabyte: ours / a bare server',
        value: crowd.server_cpu_seconds / crowd.bytes / (least.server_cpu_seconds / least.bytes),
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
for (const what of broken) say(`not as it should be: ${what}`);
process.exitCode = broken.length > 0 ? 1 : 0;
