/**
 * Runs a million agents in this process against real servers with the embedded database. The agents
 * beat at the assigned interval, through relays, streams and calls. Some die, restart, falter or
 * join. The evidence then shows whether a healthy machine was given up, whether every death was
 * found, and how late. Uses loopback only and is bounded in time. Exits with 1 if a verdict was
 * false or missing, or an acknowledged change is lost.
 */
import { loadavg } from 'node:os';
import { now, pause, systemClock } from '../src/base/clock.ts';
import { createClient } from '../src/contract/client.ts';
import { routes } from '../src/contract/routes.ts';
import { createAgents } from './fleet/agents.ts';
import { startFate } from './fleet/fate.ts';
import { figuresOf } from './fleet/figures.ts';
import { brokenBy, countFound, judge } from './fleet/judge.ts';
import { startLoad } from './fleet/load.ts';
import { options } from './fleet/options.ts';
import { drawPlan } from './fleet/plan.ts';
import { type Reading, readProcessors } from './fleet/processors.ts';
import { startReader } from './fleet/reader.ts';
import { adminToken, intervalSeconds, longestStaleSeconds, openStore, startServer } from './fleet/scene.ts';
import { sampleStatements } from './fleet/statements.ts';
import { type Stage, stories } from './fleet/stories.ts';
import { startWriter } from './fleet/writer.ts';
import { freshDirectory, removeDirectory } from './harness/leftovers.ts';
import { report, secondsOf } from './harness/measure.ts';

const startedMs = systemClock.monotonicMs();
const progress = (what: string) =>
  process.stderr.write(`${((systemClock.monotonicMs() - startedMs) / 1000).toFixed(0).padStart(4)} s  ${what}\n`);

const readEveryMs = 100;
const storedWithinMs = 2_000;
const graceSeconds = 10;
const maxReported = 10;
const story = options.story && stories[options.story];
const plan = drawPlan(options, longestStaleSeconds(options));
const loadBefore = loadavg();
const directory = await freshDirectory();
progress(`filling a store with ${options.nodes} nodes`);
const store = await openStore(directory, options);
const stage: Stage = { directory, store, options, replicas: [], progress };
const { replicas } = stage;
/** The replica that an agent calls, chosen by the agent's number. */
const urlOf = (number: number) => replicas[number % replicas.length]?.url ?? '';
try {
  const count = story?.replicas ?? 1;
  const startSeconds = await secondsOf(async () => {
    for (let place = 0; place < count; place++)
      replicas.push(await startServer(directory, store, options.rate / count, `server-${place}`));
  });
  progress(`ready after ${startSeconds.toFixed(1)} s`);
  const client = createClient({ base_url: urlOf(0), token: adminToken, addresses: routes });
  const { token } = await client.call('join-token-create', { params: { pool: 'pool-0' } });

  const since = now(systemClock);
  const agents = createAgents(options.nodes, options.joins, systemClock.nowMs());
  const interval = intervalSeconds(options);
  for (let agent = 0; agent < options.nodes; agent++)
    agents.wheel.at(agent, systemClock.nowMs() + Math.random() * interval * 1000);
  const { relays, streams, seed } = options;
  const load = startLoad({ agents, relays, streams, one_calls_in: options['one-calls-in'], urlOf });
  const fate = startFate(plan, { agents, url: () => urlOf(0), join_token: token ?? '', seed });
  const reader = story
    ? undefined
    : startReader({ url: urlOf(0), token: adminToken, everyMs: readEveryMs, metAfterMs: interval * 1_200 });
  const writer = story ? startWriter(() => urlOf(1)) : undefined;
  const running = story?.run(stage);
  const watching = store.open();
  const sampling = options.statements ? sampleStatements(watching) : undefined;

  const readings: (Reading & { sent: number; answered: number })[] = [];
  const look = () => {
    const { sent, answered } = load.tally;
    const pids = replicas.map(({ pid }) => pid);
    readings.push({ ...readProcessors(pids, store.pid()), sent, answered });
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
  const storyFigures = (await running) ?? [];
  const reads = await reader?.end();
  const db = store.open();
  // A gap of the control plane restarts every stale time, so earlier deaths are found later.
  const patienceMs = systemClock.monotonicMs() + 1000 * (longestStaleSeconds(options) + graceSeconds);
  while (systemClock.monotonicMs() < patienceMs && (await countFound(db, agents, fate.dead, since)) < fate.dead.size)
    await pause(systemClock, 1_000);
  const written = await writer?.end(db);
  load.stop();
  fate.stop();
  await pause(systemClock, storedWithinMs);
  progress('judging by the evidence');
  const judgement = await judge(db, agents, fate.dead, since);
  await db.close();
  await Promise.all(replicas.map((replica) => replica.stop()));
  const run = { options, interval, startSeconds, readings, load, fate, reads, judgement, storyFigures, written };
  const { figures, words } = figuresOf(run);
  report(options, options.story ? `fleet-${options.story}` : 'fleet', figures, loadBefore, {
    medianOf: 'one run',
    notes: words,
  });
  const broken = brokenBy(judgement, written);
  for (const each of broken.slice(0, maxReported)) progress(`not as it should be: ${each}`);
  if (broken.length > maxReported) progress(`… and ${broken.length - maxReported} more like these`);
  if (broken.length > 0) process.exitCode = 1;
} finally {
  await store.end();
  await removeDirectory(directory);
}
