/**
 * Measures the cost of a single heartbeat: CPU time of the server process per request, compared
 * with a bare Fastify server with the same body, validation and reply. Both run in their own
 * process, in short alternating turns, so that other load slows both. PostgreSQL's time is reported
 * separately, and the server's idle load is subtracted.
 */
import { loadavg } from 'node:os';
import { pause, systemClock } from '../src/base/clock.ts';
import { type RunningServer, serveRaw, serveSlipway, unlimitedRateArguments } from './beats/processes.ts';
import { processorSeconds } from './beats/processor-time.ts';
import { post, send } from './beats/sender.ts';
import { readProcessors } from './fleet/processors.ts';
import { startStore } from './fleet/store.ts';
import { freshDirectory, removeDirectory } from './harness/leftovers.ts';
import { type Figure, median, report } from './harness/measure.ts';
import { common, readOptions } from './harness/options.ts';
import { credentialOf, fillFleet } from './harness/resting-fleet.ts';

const options = readOptions(import.meta.url, {
  duration: 'about a minute for each size up to 10,000 nodes; several minutes for a million',
  options: {
    ...common,
    nodes: {
      kind: 'counts',
      default: [10_000],
      description: 'fleet sizes to measure; the cost of a heartbeat should not depend on the size',
    },
  },
});
const { quick, rounds, nodes: sizes } = options;
const beatsInTurn = 5_000;
const turnsInRound = quick ? 4 : 10;
const beatsInRound = beatsInTurn * turnsInRound;
/** Enough turns to warm up both servers. */
const warmTurns = quick ? 6 : 10;
const idleSeconds = quick ? 3 : 5;
const connections = 32;
const batch = 1_000;
/** Heartbeat bodies as our agents send them. */
const bodies = Array.from({ length: 10 }, (_, active_tasks) =>
  JSON.stringify({ status: 'ready', health_score: 100, error_rate: 0, active_tasks }),
);
/** Consecutive turns go to nodes that are far apart in the table, as in a real fleet. */
const credentialFor = (turn: number, nodes: number) => credentialOf(1 + ((turn * 7919) % nodes));

/** Sends one heartbeat for every node, so that all sessions are loaded before measuring. */
const loadSessions = (port: number, nodes: number) =>
  send(port, nodes / batch, 4, (turn) => {
    const beats = Array.from({ length: batch }, (_, i) => ({ credential: credentialOf(1 + turn * batch + i) }));
    return post(port, '/v1/agent/heartbeats', JSON.stringify({ beats }));
  });

/** Microseconds of CPU time per heartbeat, one value per round. */
interface Cost {
  /** The idle load of the server, in CPUs. */
  idle: number;
  server: number[];
  database: number[];
  raw: number[];
}

/** CPU time and elapsed time, in seconds. */
interface TimeSpent {
  server: number;
  database: number;
  elapsed: number;
}

const zeroSpent: TimeSpent = { server: 0, database: 0, elapsed: 0 };
const sum = (a: TimeSpent, b: TimeSpent): TimeSpent => ({
  server: a.server + b.server,
  database: a.database + b.database,
  elapsed: a.elapsed + b.elapsed,
});
const perBeat = (seconds: number) => (seconds * 1e6) / beatsInRound;

async function measure(nodes: number, raw: RunningServer): Promise<Cost> {
  const directory = await freshDirectory();
  const store = await startStore(directory);
  const cost: Cost = { idle: 0, server: [], database: [], raw: [] };
  const first = await serveSlipway(directory, [...store.arguments(), ...unlimitedRateArguments]);
  await first.stop();
  const db = store.open();
  await fillFleet(db, { idle: nodes, inFlight: 0 });
  await db.close();
  const slipway = await serveSlipway(directory, [...store.arguments(), ...unlimitedRateArguments]);
  /** The idle load of the server is not part of a heartbeat's cost, so it is subtracted. */
  const measureIdle = async (seconds: number) => {
    const [before, startedMs] = [processorSeconds(slipway.pid), systemClock.monotonicMs()];
    await pause(systemClock, seconds * 1000);
    return ((processorSeconds(slipway.pid) - before) * 1000) / (systemClock.monotonicMs() - startedMs);
  };
  let sent = 0;
  const runTurn = async (served: RunningServer): Promise<TimeSpent> => {
    const startedMs = systemClock.monotonicMs();
    const database = readProcessors([], store.pid()).database;
    const before = processorSeconds(served.pid);
    await send(served.port, beatsInTurn, connections, () =>
      post(served.port, '/v1/agent/heartbeat', bodies[sent % bodies.length] ?? '', credentialFor(sent++, nodes)),
    );
    return {
      server: processorSeconds(served.pid) - before,
      database: readProcessors([], store.pid()).database - database,
      elapsed: (systemClock.monotonicMs() - startedMs) / 1000,
    };
  };
  const round = async (turns: number) => {
    const spent = { slipway: zeroSpent, raw: zeroSpent };
    for (let turn = 0; turn < turns; turn++)
      for (const name of turn % 2 === 0 ? (['slipway', 'raw'] as const) : (['raw', 'slipway'] as const))
        spent[name] = sum(spent[name], await runTurn(name === 'slipway' ? slipway : raw));
    return spent;
  };
  try {
    await loadSessions(slipway.port, nodes);
    await round(warmTurns);
    const idleBefore = await measureIdle(idleSeconds);
    const roundCosts = [];
    for (let turn = 0; turn < rounds; turn++) roundCosts.push(await round(turnsInRound));
    cost.idle = (idleBefore + (await measureIdle(idleSeconds))) / 2;
    for (const spent of roundCosts) {
      cost.server.push(perBeat(spent.slipway.server - cost.idle * spent.slipway.elapsed));
      cost.database.push(perBeat(spent.slipway.database));
      cost.raw.push(perBeat(spent.raw.server));
    }
  } finally {
    await slipway.stop();
    await store.end();
    await removeDirectory(directory);
  }
  return cost;
}

const loadBefore = loadavg();
const raw = await serveRaw();
const figures: Figure[] = [];
const costs: Cost[] = [];
try {
  for (const nodes of sizes) {
    const cost = await measure(nodes, raw);
    costs.push(cost);
    const ratios = cost.server.map((spent, turn) => spent / (cost.raw[turn] ?? Number.NaN));
    figures.push(
      {
        what: `${nodes} nodes: a heartbeat, bare Fastify (baseline)`,
        value: median(cost.raw),
        unit: 'µs',
        samples: cost.raw,
      },
      {
        what: `${nodes} nodes: a heartbeat, this server`,
        value: median(cost.server),
        unit: 'µs',
        samples: cost.server,
      },
      { what: `${nodes} nodes: idle load of the server, subtracted`, value: cost.idle * 100, unit: '%' },
      {
        what: `${nodes} nodes: PostgreSQL, per heartbeat`,
        value: median(cost.database),
        unit: 'µs',
        samples: cost.database,
      },
      {
        what: `${nodes} nodes: this server / bare Fastify`,
        value: median(ratios),
        unit: '×',
        target: 1.3,
        samples: ratios,
      },
    );
  }
  const [smallest, largest] = [costs[0], costs.at(-1)];
  if (smallest && largest && smallest !== largest)
    figures.push({
      what: `a heartbeat with ${sizes.at(-1)} nodes / with ${sizes[0]} nodes`,
      value: median(largest.server) / median(smallest.server),
      unit: '×',
      target: 1.2,
    });
} finally {
  await raw.stop();
}
report(options, 'beat', figures, loadBefore);
