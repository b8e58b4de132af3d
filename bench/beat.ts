/**
 * What a single beat costs the server: processor time of its process for one request, against Fastify with nothing behind it,
 * the same body, validation and form of reply. Both in processes of their own, in turns. PostgreSQL's own time is told apart,
 * and what the server does at rest (its rules look around several times a second) is taken off.
 *
 * `--nodes 10000,100000,1000000` takes the figures for fleets of several sizes: the cost of a beat should not depend on it.
 */
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { pause, systemClock } from '../src/base/clock.ts';
import { type Served, serveRaw, serveSlipway, tireless } from './beats/processes.ts';
import { post, send } from './beats/sender.ts';
import { readProcessors } from './fleet/processors.ts';
import { startStore } from './fleet/store.ts';
import { type Figure, median, quick, report, rounds } from './measure.ts';
import { freshDirectory, removeDirectory } from './server-process.ts';
import { credentialOf, fillFleet } from './sweep-fleet.ts';

const { values } = parseArgs({ strict: false, options: { nodes: { type: 'string', default: '10000' } } });
const sizes = String(values.nodes).split(',').map(Number);
const beatsInRound = quick ? 10_000 : 30_000;
const connections = 32;
const batch = 1_000;
const beat = JSON.stringify({ status: 'ready', health_score: 97, error_rate: 0.01, active_tasks: 3 });
/** Numbers that lie apart, so that no two neighbours in a table beat together. */
const whose = (turn: number, nodes: number) => credentialOf(1 + ((turn * 7919) % nodes));

/** All of them have beaten once, so that nobody has to be learned. */
const learn = (port: number, nodes: number) =>
  send(port, nodes / batch, 4, (turn) => {
    const beats = Array.from({ length: batch }, (_, i) => ({ credential: credentialOf(1 + turn * batch + i) }));
    return post(port, '/v1/agent/heartbeats', JSON.stringify({ beats }));
  });

interface Cost {
  /** In processors. */
  rest: number;
  server: number[];
  database: number[];
  raw: number[];
}

async function measure(nodes: number, raw: Served): Promise<Cost> {
  const directory = await freshDirectory();
  const store = await startStore(directory);
  const cost: Cost = { rest: 0, server: [], database: [], raw: [] };
  const first = await serveSlipway(directory, [...store.arguments(), ...tireless]);
  await first.stop();
  const db = store.open();
  await fillFleet(db, { idle: nodes, inFlight: 0 });
  await db.close();
  const ours = await serveSlipway(directory, [...store.arguments(), ...tireless]);
  /** What a server does anyway, beats or not, is not the cost of a beat. */
  const atRest = async (seconds: number) => {
    const before = readProcessors([ours.pid], store.pid());
    await pause(systemClock, seconds * 1000);
    const after = readProcessors([ours.pid], store.pid());
    const elapsed = (after.atMs - before.atMs) / 1000;
    return ((after.servers[0] ?? 0) - (before.servers[0] ?? 0)) / elapsed;
  };
  const round = async (served: Served) => {
    const before = readProcessors([served.pid], store.pid());
    await send(served.port, beatsInRound, connections, (turn) =>
      post(served.port, '/v1/agent/heartbeat', beat, whose(turn, nodes)),
    );
    const after = readProcessors([served.pid], store.pid());
    const anyway = served === ours ? (cost.rest * (after.atMs - before.atMs)) / 1000 : 0;
    const perBeat = (seconds: number) => (seconds * 1e6) / beatsInRound;
    return {
      server: perBeat((after.servers[0] ?? 0) - (before.servers[0] ?? 0) - anyway),
      database: perBeat(after.database - before.database),
    };
  };
  try {
    await learn(ours.port, nodes);
    for (const served of [ours, raw]) await round(served);
    cost.rest = await atRest(quick ? 2 : 5);
    for (let turn = 0; turn < rounds; turn++) {
      const { server, database } = await round(ours);
      cost.server.push(server);
      cost.database.push(database);
      cost.raw.push((await round(raw)).server);
    }
  } finally {
    await ours.stop();
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
      { what: `${nodes} nodes: a beat, raw Fastify`, value: median(cost.raw), unit: 'µs', samples: cost.raw },
      { what: `${nodes} nodes: a beat, this server`, value: median(cost.server), unit: 'µs', samples: cost.server },
      { what: `${nodes} nodes: the server at rest (taken off)`, value: cost.rest * 100, unit: '%' },
      {
        what: `${nodes} nodes: PostgreSQL meanwhile, for each`,
        value: median(cost.database),
        unit: 'µs',
        samples: cost.database,
      },
      { what: `${nodes} nodes: against raw Fastify`, value: median(ratios), unit: '×', target: 1.3, samples: ratios },
    );
  }
  const [smallest, largest] = [costs[0], costs.at(-1)];
  if (smallest && largest && smallest !== largest)
    figures.push({
      what: `a beat of ${sizes.at(-1)} against ${sizes[0]} nodes`,
      value: median(largest.server) / median(smallest.server),
      unit: '×',
      target: 1.2,
    });
} finally {
  await raw.stop();
}
report('beat', figures, loadBefore);
