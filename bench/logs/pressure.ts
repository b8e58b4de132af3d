/**
 * Measures the memory of agent and server while the store accepts no log lines. One agent runs a
 * command that writes at full speed, and a hundred nodes retry their batches. The lines wait on the
 * machines' disks, so the memory must not grow with the backlog.
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
const retryingNodes = 100;
const batchLines = 1_500;
const sampleMs = 100;
/** The size limit of the spool plus one segment. */
const maxSpoolMb = 34;
const maxAgentGrowthMb = 64;
/** Includes 64 MB of lines in flight. */
const maxServerGrowthMb = 256;

const flood =
  'i=0; while :; do i=$((i+1)); echo "$i 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789"; done';

/** Ships batch after batch, retrying each until it is accepted. */
async function shipUntil(url: string, writer: WritingNode, until: AbortSignal): Promise<void> {
  const headers = { authorization: `Bearer ${writer.credential}`, 'content-type': 'application/x-ndjson' };
  while (!until.aborted) {
    const body = ndjson(takeLines(writer, batchLines));
    for (let isAccepted = false; !isAccepted && !until.aborted; ) {
      const answer = await fetch(`${url}/v1/agent/logs`, { method: 'POST', headers, body, signal: until }).catch(
        () => null,
      );
      isAccepted = answer?.ok === true;
      await answer?.arrayBuffer().catch(() => null);
      if (!isAccepted) await pause(systemClock, 200, until);
    }
  }
}

const bytesIn = (directory: string) =>
  readdirSync(directory).reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);

/** The highest sample until the promise settles. */
async function peakUntil(end: Promise<unknown>, sample: () => number): Promise<number> {
  let peak = sample();
  const ended = end.then(() => true);
  while (!(await Promise.race([ended, pause(systemClock, sampleMs).then(() => false)])))
    peak = Math.max(peak, sample());
  return Math.max(peak, sample());
}

/** Locks the table that all log writes need, so that nothing is stored. */
async function lockLogTable({ url }: Database, seconds: number): Promise<void> {
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
  const writers = await registerWriters(client, server.url, retryingNodes, 'pushy');
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
    const pushing = writers.map((writer) => shipUntil(server.url, writer, stopping.signal));
    const locked = lockLogTable(db, seconds);
    const [serverPeak, agentPeak] = await Promise.all([
      peakUntil(locked, () => server.residentMb()),
      peakUntil(locked, () => residentMb(pid)),
    ]);
    const waiting = bytesIn(spool) / 2 ** 20;
    stopping.abort();
    await Promise.all(pushing);
    return [
      {
        what: `store accepts no lines for ${seconds} s: lines on the agent's disk`,
        value: waiting,
        unit: 'MB',
        target: maxSpoolMb,
      },
      { what: '… memory of the agent before', value: before.agent, unit: 'MB' },
      { what: "… growth of the agent's memory", value: agentPeak - before.agent, unit: 'MB', target: maxAgentGrowthMb },
      { what: '… memory of the server before', value: before.server, unit: 'MB' },
      {
        what: `… growth of the server's memory, with ${retryingNodes} nodes`,
        value: serverPeak - before.server,
        unit: 'MB',
        target: maxServerGrowthMb,
      },
    ];
  } finally {
    stopping.abort();
    const ended = once(agent, 'exit');
    agent.kill('SIGKILL');
    await ended;
  }
}
