/**
 * Measures the CPU time of the server for a heartbeat over a stream. The baseline is the same
 * heartbeat as a single call, in the same run. Both include the server's idle load. Also measures
 * the memory of an open stream.
 */
import { readFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { WebSocket } from 'ws';
import { readProcessors } from '../fleet/processors.ts';
import { startStore } from '../fleet/store.ts';
import { freshDirectory, removeDirectory } from '../harness/leftovers.ts';
import { median, report } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';
import { credentialOf, fillFleet } from '../harness/resting-fleet.ts';
import { type RunningServer, serveSlipway, unlimitedRateArguments } from './processes.ts';
import { post, send } from './sender.ts';

const options = readOptions(import.meta.url, {
  duration: 'about a minute',
  options: common,
});
const { quick, rounds } = options;
const nodes = 10_000;
const streams = quick ? 1_000 : 4_000;
const beatsInRound = quick ? 10_000 : 30_000;
/** Requests in flight, by call and by stream. */
const maxInFlight = 32;
const beat = JSON.stringify({ status: 'ready', health_score: 97, error_rate: 0.01, active_tasks: 3 });

const openOne = (port: number, number: number): Promise<WebSocket> =>
  new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${credentialOf(number)}` };
    const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/agent/stream`, { headers, perMessageDeflate: false });
    socket.once('open', () => resolve(socket)).once('error', reject);
  });

async function openAll(port: number): Promise<WebSocket[]> {
  const sockets: WebSocket[] = [];
  while (sockets.length < streams) {
    const numbers = Array.from({ length: Math.min(100, streams - sockets.length) }, (_, i) => sockets.length + 1 + i);
    sockets.push(...(await Promise.all(numbers.map((number) => openOne(port, number)))));
  }
  return sockets;
}

/** Sends heartbeats over the streams in turn, and the next one after each answer. */
function beatOver(sockets: WebSocket[], count: number): Promise<void> {
  return new Promise((resolve) => {
    let sent = 0;
    let answered = 0;
    const next = () => {
      if (sent < count) sockets[sent++ % sockets.length]?.send(beat);
    };
    for (const socket of sockets)
      socket.removeAllListeners('message').on('message', () => {
        if (++answered === count) resolve();
        else next();
      });
    for (let started = 0; started < maxInFlight; started++) next();
  });
}

const residentMb = ({ pid }: RunningServer) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

const loadBefore = loadavg();
const directory = await freshDirectory();
const store = await startStore(directory);
try {
  const first = await serveSlipway(directory, [...store.arguments(), ...unlimitedRateArguments]);
  await first.stop();
  const db = store.open();
  await fillFleet(db, { idle: nodes, inFlight: 0 });
  await db.close();
  const served = await serveSlipway(directory, [...store.arguments(), ...unlimitedRateArguments]);
  const microseconds = async (work: () => Promise<void>) => {
    const before = readProcessors([served.pid], store.pid());
    await work();
    const after = readProcessors([served.pid], store.pid());
    return (((after.servers[0] ?? 0) - (before.servers[0] ?? 0)) * 1e6) / beatsInRound;
  };
  const credentialFor = (turn: number) => credentialOf(1 + (turn % streams));
  const byCall = () =>
    send(served.port, beatsInRound, maxInFlight, (turn) =>
      post(served.port, '/v1/agent/heartbeat', beat, credentialFor(turn)),
    );
  await byCall();
  const before = residentMb(served);
  const sockets = await openAll(served.port);
  await beatOver(sockets, beatsInRound);
  const kilobytes = ((residentMb(served) - before) * 1024) / streams;
  const [calls, frames]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    calls.push(await microseconds(byCall));
    frames.push(await microseconds(() => beatOver(sockets, beatsInRound)));
  }
  for (const socket of sockets) socket.terminate();
  await served.stop();
  const ratios = frames.map((spent, round) => spent / (calls[round] ?? Number.NaN));
  report(
    options,
    'agent-streams',
    [
      { what: 'CPU time of a heartbeat as a call (baseline)', value: median(calls), unit: 'µs', samples: calls },
      { what: 'CPU time of a heartbeat over a stream', value: median(frames), unit: 'µs', samples: frames },
      { what: 'stream / call', value: median(ratios), unit: '×', samples: ratios },
      { what: `memory per thousand open streams, with ${streams} open`, value: (kilobytes * 1000) / 1024, unit: 'MB' },
    ],
    loadBefore,
  );
} finally {
  await store.end();
  await removeDirectory(directory);
}
