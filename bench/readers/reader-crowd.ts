/**
 * Many readers of one stream in their own process: raw sockets that count bytes and parse one fact
 * per piece, because parsing everything would measure the crowd itself. Controlled over IPC; every
 * command is answered.
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

export interface Heard {
  bytes: number;
  pieces: number;
  samples: number;
  half_ms: number;
  p99_ms: number;
  most_ms: number;
  /** Readers that the server disconnected. */
  lost: number;
  cpu_seconds: number;
}

export type Command = { open: Crowd } | { measure: 'begin' | 'end' } | { close: true };

/** The start of a fact; 24 characters contain the time its transaction began. */
const mark = Buffer.from('data: {"cursor":"');
const before = Buffer.from('"at":"');
const lengthOfTime = '2030-01-01T00:00:00.000Z'.length;

const openAtOnce = 20;

let sockets: net.Socket[] = [];
let measuring = false;
let delays: number[] = [];
let heard = { bytes: 0, pieces: 0, lost: 0 };
let cpu = process.cpuUsage();

function look(chunk: Buffer): void {
  if (!measuring) return;
  heard.bytes += chunk.length;
  heard.pieces++;
  const fact = chunk.indexOf(mark);
  const at = fact < 0 ? -1 : chunk.indexOf(before, fact);
  const from = at + before.length;
  if (at < 0 || chunk.length < from + lengthOfTime) return;
  delays.push(systemClock.nowMs() - Date.parse(chunk.toString('latin1', from, from + lengthOfTime)));
}

/** All sockets read into the same buffer, so that reading costs little more than the copy. */
const shared = Buffer.alloc(256 * 1024);

function openOne({ url, path, tokens }: Crowd, place: number): Promise<net.Socket> {
  const token = tokens[place % tokens.length];
  const { hostname, port } = new URL(url);
  return new Promise((resolve, refuse) => {
    let isIn = false;
    const take = (length: number, buffer: Uint8Array): boolean => {
      const chunk = Buffer.from(buffer.buffer, buffer.byteOffset, length);
      if (isIn) look(chunk);
      else if (chunk.includes('HTTP/1.1 200')) resolve(socket);
      else refuse(new Error(chunk.toString('latin1')));
      isIn = true;
      return true;
    };
    const socket = net.connect({ host: hostname, port: Number(port), onread: { buffer: shared, callback: take } });
    socket.on('error', refuse);
    socket.write(`GET ${path} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${token}\r\n\r\n`);
  });
}

async function open(crowd: Crowd): Promise<void> {
  while (sockets.length < crowd.readers) {
    const some = Math.min(openAtOnce, crowd.readers - sockets.length);
    sockets.push(...(await Promise.all(Array.from({ length: some }, (_, i) => openOne(crowd, sockets.length + i)))));
  }
  for (const [place, socket] of sockets.entries()) {
    if (place < crowd.stuck) socket.pause();
    else socket.on('close', () => heard.lost++);
  }
}

function begin(): void {
  delays = [];
  heard = { bytes: 0, pieces: 0, lost: 0 };
  cpu = process.cpuUsage();
  measuring = true;
}

function end(): Heard {
  measuring = false;
  const { user, system } = process.cpuUsage(cpu);
  return {
    ...heard,
    samples: delays.length,
    half_ms: quantile(delays, 0.5),
    p99_ms: quantile(delays, 0.99),
    most_ms: quantile(delays, 1),
    cpu_seconds: (user + system) / 1e6,
  };
}

function close(): void {
  for (const socket of sockets) socket.removeAllListeners('close').destroy();
  sockets = [];
}

process.on('message', async (command: Command) => {
  let answer: Heard | string | true = true;
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
