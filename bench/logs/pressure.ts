/**
 * Memory of shipping while the store accepts nothing: an agent whose command writes at full speed,
 * and a hundred nodes that keep retrying. Lines wait on the machines' disks; neither agent nor
 * server may grow with the backlog.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { pause, systemClock } from '../../src/base/clock.ts';
import type { Client as ApiClient } from '../../src/contract/client.ts';
import type { Database } from '../../src/store/pg/database.ts';
import type { Figure } from '../harness/measure.ts';
import { residentMb, type ServerProcess } from '../harness/server-process.ts';
import { ndjson, registerWriters, takeLines, type WritingNode } from './nodes.ts';

const agentMain = fileURLToPath(new URL('../../src/agent/main.ts', import.meta.url));
const pushyNodes = 100;
const batchLines = 1_500;
const sampleMs = 100;
/**
 * The spool plus one segment; the allowed growth of the agent; the same for the server with 64 MB
 * of lines in flight.
 */
const [spoolMb, agentMb, serverMb] = [34, 64, 256];

const flood =
  'i=0; while :; do i=$((i+1)); echo "$i 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789"; done';

/** Ships batch after batch, retrying each until it is accepted. */
async function push(url: string, writer: WritingNode, until: AbortSignal): Promise<void> {
  const headers = { authorization: `Bearer ${writer.credential}`, 'content-type': 'application/x-ndjson' };
  while (!until.aborted) {
    const body = ndjson(takeLines(writer, batchLines));
    for (let taken = false; !taken && !until.aborted; ) {
      const answer = await fetch(`${url}/v1/agent/logs`, { method: 'POST', headers, body, signal: until }).catch(
        () => null,
      );
      taken = answer?.ok === true;
      await answer?.arrayBuffer().catch(() => null);
      if (!taken) await pause(systemClock, 200, until);
    }
  }
}

const bytesIn = (directory: string) =>
  readdirSync(directory).reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);

async function peakWhile(sample: () => number, over: Promise<unknown>): Promise<number> {
  let peak = sample();
  const ended = over.then(() => true);
  while (!(await Promise.race([ended, pause(systemClock, sampleMs).then(() => false)])))
    peak = Math.max(peak, sample());
  return Math.max(peak, sample());
}

/** Locks the table that all log writes need, so that nothing is stored. */
async function holdStore({ url }: Database, seconds: number): Promise<void> {
  const holder = new Client({ connectionString: url });
  await holder.connect();
  await holder.query('begin');
  await holder.query('lock table node_log_ends in access exclusive mode');
  await pause(systemClock, seconds * 1000);
  await holder.end();
}

export async function memoryUnderPressure(
  { client, server, db }: { client: ApiClient; server: ServerProcess; db: Database },
  directory: string,
  seconds: number,
): Promise<Figure[]> {
  const writers = await registerWriters(client, server.url, pushyNodes, 'pushy');
  const { enrollment_token } = await client.call('node-create', {
    body: { pool: 'writers', name: 'flooding' } as never,
  });
  const args = ['--server', server.url, '--enrollment-token', enrollment_token, '--dir', directory];
  const agent = spawn(process.execPath, [agentMain, ...args, '--', '/bin/sh', '-c', flood], { stdio: 'ignore' });
  const spool = join(directory, '.agent', 'spool');
  const pid = agent.pid ?? 0;
  const stopping = new AbortController();
  try {
    await pause(systemClock, 3_000);
    const before = { server: server.residentMb(), agent: residentMb(pid) };
    const pushing = writers.map((writer) => push(server.url, writer, stopping.signal));
    const held = holdStore(db, seconds);
    const [serverPeak, agentPeak] = await Promise.all([
      peakWhile(() => server.residentMb(), held),
      peakWhile(() => residentMb(pid), held),
    ]);
    const waiting = bytesIn(spool) / 2 ** 20;
    stopping.abort();
    await Promise.all(pushing);
    return [
      {
        what: `store stands still for ${seconds} s: lines on the agent's disk`,
        value: waiting,
        unit: 'MB',
        target: spoolMb,
      },
      { what: '… memory of the agent before', value: before.agent, unit: 'MB' },
      { what: '… memory of the agent, its growth', value: agentPeak - before.agent, unit: 'MB', target: agentMb },
      { what: '… memory of the server before', value: before.server, unit: 'MB' },
      {
        what: `… memory of the server, its growth by ${pushyNodes} nodes`,
        value: serverPeak - before.server,
        unit: 'MB',
        target: serverMb,
      },
    ];
  } finally {
    stopping.abort();
    const ended = once(agent, 'exit');
    agent.kill('SIGKILL');
    await ended;
  }
}
