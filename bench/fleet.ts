/**
 * A million honest agents in this one process, in front of a real server with its embedded database: they beat at the interval that
 * the server assigns, through relays and alone; some die, some restart, some falter, some join. Judged by the evidence: no machine that is
 * well was given up, each that died was found, and how late. Loopback only, bounded in time. Ends with 1 when a verdict was false or missing.
 *
 * `--quick` is a size to try things with; `--nodes`, `--minutes`, `--rate`, `--deaths`, `--relays`, `--streams` and more: bench/fleet/options.ts.
 */
import { loadavg } from 'node:os';
import { now, pause, systemClock } from '../src/base/clock.ts';
import { createClient } from '../src/contract/client.ts';
import { routes } from '../src/contract/routes.ts';
import { createAgents } from './fleet/agents.ts';
import { startFate } from './fleet/fate.ts';
import { figuresOf } from './fleet/figures.ts';
import { judge } from './fleet/judge.ts';
import { startLoad } from './fleet/load.ts';
import { options } from './fleet/options.ts';
import { drawPlan } from './fleet/plan.ts';
import { type Reading, readProcessors } from './fleet/processors.ts';
import { startReader } from './fleet/reader.ts';
import { adminToken, intervalSeconds, longestStaleSeconds, openStore, startServer } from './fleet/scene.ts';
import { sampleStatements } from './fleet/statements.ts';
import { report, secondsOf } from './measure.ts';
import { freshDirectory, removeDirectory } from './server-process.ts';

const startedMs = systemClock.monotonicMs();
const progress = (what: string) =>
  process.stderr.write(`${((systemClock.monotonicMs() - startedMs) / 1000).toFixed(0).padStart(4)} s  ${what}\n`);

const readEveryMs = 100;
const storedWithinMs = 2_000;
const plan = drawPlan(options, longestStaleSeconds(options));
const loadBefore = loadavg();
const directory = await freshDirectory();
progress(`filling a store with ${options.nodes} nodes`);
const store = await openStore(directory, options);
try {
  let server: Awaited<ReturnType<typeof startServer>> | undefined;
  const startSeconds = await secondsOf(async () => {
    server = await startServer(directory, store, options.rate);
  });
  if (!server) throw new Error('no server');
  const { url, pid } = server;
  progress(`the server is ready after ${startSeconds.toFixed(1)} s`);
  const client = createClient({ base_url: url, token: adminToken, addresses: routes });
  const { token } = await client.call('join-token-create', { params: { pool: 'pool-0' } });

  const since = now(systemClock);
  const agents = createAgents(options.nodes, options.joins, systemClock.nowMs());
  const interval = intervalSeconds(options);
  for (let agent = 0; agent < options.nodes; agent++)
    agents.wheel.at(agent, systemClock.nowMs() + Math.random() * interval * 1000);
  const { relays, streams: singles, seed } = options;
  const load = startLoad({ agents, relays, singles, urlOf: () => url });
  const fate = startFate(plan, { agents, url: () => url, join_token: token ?? '', seed });
  const reader = startReader({ url, token: adminToken, everyMs: readEveryMs });

  const watching = store.open();
  const sampling = options.statements ? sampleStatements(watching) : undefined;

  const readings: (Reading & { sent: number; answered: number })[] = [];
  const look = () => {
    const { sent, answered } = load.tally;
    readings.push({ ...readProcessors([pid], store.pid()), sent, answered });
  };
  look();
  for (let turn = 1; turn <= options.minutes * 60; turn++) {
    await pause(systemClock, 1_000);
    look();
    if (turn % 10 !== 0) continue;
    const [before, after] = [readings.at(-11), readings.at(-1)];
    if (!before || !after) continue;
    const rate = ((after.answered - before.answered) * 1000) / (after.atMs - before.atMs);
    progress(
      `${turn} s: ${rate.toFixed(0)} beats/s answered, ${load.behind()} behind, ${fate.dead.size} dead, ${after.residentMb[0]?.toFixed(0)} MB`,
    );
  }
  for (const line of (await sampling?.end()) ?? []) progress(line);
  await watching.close();
  const { taken, failed } = await reader.end();
  load.stop();
  fate.stop();
  await pause(systemClock, storedWithinMs);
  progress('judging by the evidence');
  const db = store.open();
  const judgement = await judge(db, agents, fate.dead, since);
  await db.close();
  await server.stop();
  const figures = figuresOf({ options, interval, startSeconds, readings, load, fate, taken, failed, judgement });
  for (const line of figures.told) progress(line);
  report('fleet', figures.figures, loadBefore, { medianOf: 'one run' });
  if (judgement.false_verdicts.length + judgement.missed.length > 0) process.exitCode = 1;
} finally {
  await store.end();
  await removeDirectory(directory);
}
