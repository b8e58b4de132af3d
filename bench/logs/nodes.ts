/** Simulates machines that only write logs. They register as agents and ship the given lines. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { controlPlane } from '../../src/agent/connection/control-plane.ts';
import { serverTime } from '../../src/agent/connection/server-time.ts';
import { type Transport, transport } from '../../src/agent/connection/transport.ts';
import { logShipper } from '../../src/agent/spool/log-shipper.ts';
import { openSpool } from '../../src/agent/spool/spool.ts';
import { defaultTiming } from '../../src/agent/timing.ts';
import { pause, systemClock } from '../../src/base/clock.ts';
import type { ShippedLine } from '../../src/contract/agent/agent.ts';
import type { Client } from '../../src/contract/client.ts';

export interface WritingNode {
  node_id: string;
  node_instance_id: string;
  credential: string;
  /** The number of the last line that the node wrote. */
  seq: number;
}

const pool = 'writers';
const shipTimeoutMs = 600_000;
const crowdedPauseMs = 5;

export async function registerWriters(
  client: Client,
  url: string,
  count: number,
  prefix = 'writer',
): Promise<WritingNode[]> {
  const document = { driver: 'external', heartbeat: { interval_seconds: 300, stale_after_seconds: 3600 } };
  await client.call('pool-put', { params: { pool }, body: document as never });
  const writers: WritingNode[] = [];
  for (let i = 0; i < count; i++) {
    const { enrollment_token } = await client.call('node-create', { body: { pool, name: `${prefix}-${i}` } as never });
    const body = JSON.stringify({ enrollment_token, version: 'bench' });
    const headers = { 'content-type': 'application/json' };
    const reply = await fetch(`${url}/v1/agent/register`, { method: 'POST', headers, body });
    if (reply.status !== 201) throw new Error(`registration failed: ${reply.status} ${await reply.text()}`);
    writers.push({ ...((await reply.json()) as WritingNode), seq: 0 });
  }
  return writers;
}

/** A log line like that of a web server: mostly repeated text, with some unique parts. */
export const lineOf = (seq: number): ShippedLine => ({
  seq,
  at: new Date(1_790_000_000_000 + seq).toISOString(),
  stream: 'stdout',
  line: `10.1.${seq % 256}.${(seq * 7) % 256} "GET /v1/items/${(seq * 7919) % 1_000_003}?page=${seq % 40} HTTP/1.1" 200 ${(seq * 31) % 9973} ${(seq % 977) / 1000}`,
});

export const takeLines = (writer: WritingNode, count: number): ShippedLine[] =>
  Array.from({ length: count }, () => lineOf(++writer.seq));

export const ndjson = (lines: ShippedLine[]) =>
  Buffer.from(`${lines.map((line) => JSON.stringify(line)).join('\n')}\n`);

const serverOf = (writer: WritingNode, wire: Transport) =>
  controlPlane({
    transport: wire,
    credential: () => writer.credential,
    timeout_ms: defaultTiming.call_timeout_ms,
    beat_answer_ms: defaultTiming.beat_answer_ms,
    correlation_id: () => null,
    waitForTurn: async () => {},
    onAnswer: () => {},
    onFailure: ({ code, detail }) => process.stderr.write(`refused: ${code} ${detail}\n`),
  });

const wireTo = (url: string) => transport(url, systemClock, serverTime(systemClock));
const silentLog = { info() {}, warn() {}, error() {}, lines() {}, with: () => silentLog };

/**
 * Ships lines like an agent: appends them to a spool on disk and ships them from there. Resolves
 * after the server has acknowledged the last line.
 */
export async function shipAsAgent(url: string, writer: WritingNode, portions: ShippedLine[][], directory: string) {
  const wire = wireTo(url);
  const spool = openSpool(join(directory, `spool-${writer.seq}`), systemClock);
  const stopping = new AbortController();
  const first = portions[0]?.[0]?.seq ?? 1;
  // This spool is new and numbers its lines from 1, so the instance must not have shipped any.
  if (first > 1) throw new Error('this node has already shipped lines');
  const parts = { clock: systemClock, log: silentLog, timing: defaultTiming, signal: stopping.signal };
  const shipper = logShipper({ ...parts, spool, server: serverOf(writer, wire) });
  for (const portion of portions) {
    spool.append(portion);
    // Like the pipe of a command: yield between reads, and wait while the spool is crowded.
    do await pause(systemClock, spool.isCrowded() ? crowdedPauseMs : 0);
    while (spool.isCrowded());
  }
  stopping.abort();
  await shipper.flush(AbortSignal.timeout(shipTimeoutMs));
  spool.close();
  wire.close();
  await rm(directory, { recursive: true, force: true });
}

/** Ships the batches of many nodes. Like an agent, each node has one batch in flight. */
export async function shipAsMany(url: string, batches: Map<WritingNode, Buffer[]>): Promise<void> {
  const shipAll = async (writer: WritingNode, ownBatches: Buffer[]) => {
    const wire = wireTo(url);
    const server = serverOf(writer, wire);
    for (const batch of ownBatches) {
      const answer = await server.logs(batch, AbortSignal.timeout(shipTimeoutMs));
      if (!answer.ok) throw new Error(`${answer.failure.code}: ${answer.failure.detail}`);
    }
    wire.close();
  };
  await Promise.all([...batches].map(([writer, ownBatches]) => shipAll(writer, ownBatches)));
}
