/**
 * Runs a million agents in this process against real servers with the embedded database. The agents
 * send heartbeats at the assigned interval, through relays, streams and calls. During the run some
 * agents die, restart, fall silent for a while or join. Afterwards the evidence shows whether a
 * healthy machine was declared offline, and whether and how late each death was detected. Exits
 * with 1 if a verdict was false, held back or missing, or if an acknowledged change was lost. Uses
 * loopback only.
 */
import { loadavg } from 'node:os';
import { now, pause, systemClock } from '../src/base/clock.ts';
import { createClient } from '../src/contract/client.ts';
import { routes } from '../src/contract/routes.ts';
import { createAgents } from './fleet/agents.ts';
import { startEvents } from './fleet/events.ts';
import { figuresOf } from './fleet/figures.ts';
import { countDetected, describeFailures, judge } from './fleet/judge.ts';
import { startLoad } from './fleet/load.ts';
import { options } from './fleet/options.ts';
import { drawPlan } from './fleet/plan.ts';
import { type Reading, readProcessors } from './fleet/processors.ts';
import { startReader } from './fleet/reader.ts';
import { adminToken, intervalSeconds, longestStaleSeconds, openStore, startServer } from './fleet/scene.ts';
import { sampleStatements } from './fleet/statements.ts';
import { type StoryContext, stories } from './fleet/stories.ts';
import { startWriter } from './fleet/writer.ts';
import { freshDirectory, removeDirectory } from './harness/leftovers.ts';
import { report, secondsOf } from './harness/measure.ts';

const startedMs = systemClock.monotonicMs();
const progress = (message: string) =>
  process.stderr.write(`${((systemClock.monotonicMs() - startedMs) / 1000).toFixed(0).padStart(4)} s  ${message}\n`);

const readEveryMs = 100;
/** Answered heartbeats are stored within this time. */
const flushMs = 2_000;
const graceSeconds = 10;
const maxReported = 10;
const story = options.story && stories[options.story];
const plan = drawPlan(options, longestStaleSeconds(options));
const loadBefore = loadavg();
const directory = await freshDirectory();
progress(`filling a store with ${options.nodes} nodes`);
const store = await openStore(directory, options);
const context: StoryContext = { directory, store, options, replicas: [], progress };
const { replicas } = context;
/** The replica that an agent or a relay calls, chosen by its number. */
const urlOf = (number: number) => replicas[number % replicas.length]?.url ?? '';
try {
  const count = story?.replicas ?? 1;
  const startSeconds = await secondsOf(async () => {
    for (let place = 0; place < count; place++)
      replicas.push(await startServer(directory, store, options.rate / count, `server-${place}`));
  });
  progress(`the servers are ready after ${startSeconds.toFixed(1)} s`);
  const client = createClient({ base_url: urlOf(0), token: adminToken, addresses: routes });
  const { token } = await client.call('join-token-create', { params: { pool: 'pool-0' } });

  const since = now(systemClock);
  const agents = createAgents(options.nodes, options.joins, systemClock.nowMs());
  const interval = intervalSeconds(options);
  for (let agent = 0; agent < options.nodes; agent++)
    agents.wheel.schedule(agent, systemClock.nowMs() + Math.random() * interval * 1000);
  const { relays, streams, seed } = options;
  const load = startLoad({ agents, relays, streams, one_calls_in: options['one-calls-in'], urlOf });
  const events = startEvents(plan, { agents, url: () => urlOf(0), join_token: token ?? '', seed });
  const reader = story
    ? undefined
    : startReader({ url: urlOf(0), token: adminToken, everyMs: readEveryMs, firstContactMs: interval * 1_200 });
  const writer = story ? startWriter(() => urlOf(1)) : undefined;
  const running = story?.run(context);
  const watching = store.open();
  const sampling = options.statements ? sampleStatements(watching) : undefined;

  const readings: (Reading & { sent: number; answered: number })[] = [];
  const takeReading = () => {
    const { sent, answered } = load.tally;
    const pids = replicas.map(({ pid }) => pid);
    readings.push({ ...readProcessors(pids, store.pid()), sent, answered });
  };
  takeReading();
  for (let turn = 1; turn <= options.minutes * 60; turn++) {
    await pause(systemClock, 1_000);
    takeReading();
    if (turn % 10 !== 0) continue;
    const [before, after] = [readings.at(-11), readings.at(-1)];
    if (!before || !after) continue;
    const rate = ((after.answered - before.answered) * 1000) / (after.atMs - before.atMs);
    progress(
      `${turn} s: ${rate.toFixed(0)} heartbeats/s answered, ${load.behind()} due but not sent, ${events.dead.size} agents dead, server uses ${after.residentMb[0]?.toFixed(0)} MB`,
    );
  }
  for (const line of (await sampling?.end()) ?? []) progress(line);
  await watching.close();
  const storyFigures = (await running) ?? [];
  const reads = await reader?.end();
  const db = store.open();
  // After a gap of the control plane, every stale time starts again, so the last deaths may still
  // be undetected.
  const giveUpMs = systemClock.monotonicMs() + 1000 * (longestStaleSeconds(options) + graceSeconds);
  while (
    systemClock.monotonicMs() < giveUpMs &&
    (await countDetected(db, agents, events.dead, since)) < events.dead.size
  )
    await pause(systemClock, 1_000);
  const written = await writer?.end(db);
  load.stop();
  events.stop();
  await pause(systemClock, flushMs);
  progress('checking the verdicts in the evidence');
  const judgement = await judge(db, agents, events.dead, since);
  await db.close();
  await Promise.all(replicas.map((replica) => replica.stop()));
  const run = { options, interval, startSeconds, readings, load, events, reads, judgement, storyFigures, written };
  const { figures, notes } = figuresOf(run);
  report(options, options.story ? `fleet-${options.story}` : 'fleet', figures, loadBefore, {
    medianOf: 'one run',
    notes,
  });
  const failures = describeFailures(judgement, written);
  for (const failure of failures.slice(0, maxReported)) progress(`failed: ${failure}`);
  if (failures.length > maxReported) progress(`… and ${failures.length - maxReported} more failures`);
  if (failures.length > 0) process.exitCode = 1;
} finally {
  await store.end();
  await removeDirectory(directory);
}
