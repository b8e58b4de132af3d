/**
 * Runs many readers of one stream in a separate process. The readers are raw sockets that count
 * bytes and parse one fact per chunk, because parsing every fact would measure the crowd itself.
 * The parent sends commands over IPC, and every command gets an answer.
 */
import net from 'node:net';
import { systemClock } from '../../src/base/clock.ts';
import { quantile } from '../harness/measure.ts';

export interface Crowd {
  url: string;
  path: string;
  /** Used in turn: one token may hold only a part of a replica's streams. */
  tokens: string[];
  readers: number;
  /** The number of readers that stop reading once connected. */
  stuck: number;
}

export interface CrowdResult {
  bytes: number;
  chunks: number;
  samples: number;
  /** From the start of a change's transaction until a reader received the change. */
  p50_ms: number;
  p99_ms: number;
  max_ms: number;
  /** Readers that the server disconnected. */
  lost: number;
  cpu_seconds: number;
}

export type Command = { open: Crowd } | { measure: 'begin' | 'end' } | { close: true };

/** A fact starts with this text; after `"at":"` follows the time at which its transaction began. */
const factStart = Buffer.from('data: {"cursor":"');
const timeStart = Buffer.from('"at":"');
const lengthOfTime = '2030-01-01T00:00:00.000Z'.length;

const openAtOnce = 20;

let sockets: net.Socket[] = [];
let isMeasuring = false;
let delays: number[] = [];
let counts = { bytes: 0, chunks: 0, lost: 0 };
let cpu = process.cpuUsage();

function measureChunk(chunk: Buffer): void {
  if (!isMeasuring) return;
  counts.bytes += chunk.length;
  counts.chunks++;
  const fact = chunk.indexOf(factStart);
  const at = fact < 0 ? -1 : chunk.indexOf(timeStart, fact);
  const from = at + timeStart.length;
  if (at < 0 || chunk.length < from + lengthOfTime) return;
  delays.push(systemClock.nowMs() - Date.parse(chunk.toString('latin1', from, from + lengthOfTime)));
}

/** All sockets read into the same buffer, so that reading costs little more than the copy. */
const shared = Buffer.alloc(256 * 1024);

function openOne({ url, path, tokens }: Crowd, place: number): Promise<net.Socket> {
  const token = tokens[place % tokens.length];
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let hasHeaders = false;
    const take = (length: number, buffer: Uint8Array): boolean => {
      const chunk = Buffer.from(buffer.buffer, buffer.byteOffset, length);
      if (hasHeaders) measureChunk(chunk);
      else if (chunk.includes('HTTP/1.1 200')) resolve(socket);
      else reject(new Error(chunk.toString('latin1')));
      hasHeaders = true;
      return true;
    };
    const socket = net.connect({ host: hostname, port: Number(port), onread: { buffer: shared, callback: take } });
    socket.on('error', reject);
    socket.write(`GET ${path} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${token}\r\n\r\n`);
  });
}

async function open(crowd: Crowd): Promise<void> {
  while (sockets.length < crowd.readers) {
    const count = Math.min(openAtOnce, crowd.readers - sockets.length);
    sockets.push(...(await Promise.all(Array.from({ length: count }, (_, i) => openOne(crowd, sockets.length + i)))));
  }
  for (const [place, socket] of sockets.entries()) {
    if (place < crowd.stuck) socket.pause();
    else socket.on('close', () => counts.lost++);
  }
}

function begin(): void {
  delays = [];
  counts = { bytes: 0, chunks: 0, lost: 0 };
  cpu = process.cpuUsage();
  isMeasuring = true;
}

function end(): CrowdResult {
  isMeasuring = false;
  const { user, system } = process.cpuUsage(cpu);
  return {
    ...counts,
    samples: delays.length,
    p50_ms: quantile(delays, 0.5),
    p99_ms: quantile(delays, 0.99),
    max_ms: quantile(delays, 1),
    cpu_seconds: (user + system) / 1e6,
  };
}

function close(): void {
  for (const socket of sockets) socket.removeAllListeners('close').destroy();
  sockets = [];
}

process.on('message', async (command: Command) => {
  let answer: CrowdResult | string | true = true;
  try {
    if ('open' in command) await open(command.open);
    else if ('close' in command) close();
    else if (command.measure === 'begin') begin();
    else answer = end();
  } catch (error) {
    answer = String(error);
  }
  process.send?.(answer);
});
process.on('disconnect', () => process.exit(0));
