/** Kills real replica processes, and checks that other replicas continue their runs. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { emptyDatabase, type TestDatabase } from '../../test/support/database.ts';
import { pause, systemClock } from '../base/clock.ts';
import type { WorkflowId } from '../base/ids.ts';
import type { ReplicaOptions } from './conformance/dbos-replica.ts';

const script = fileURLToPath(new URL('./conformance/dbos-replica.ts', import.meta.url));
const timeoutMs = 30_000;
const workflow_id = 'op_crash' as WorkflowId;
/** With this many runs, a replica that still takes runs from the queue gets at least one. */
const manyRuns = Array.from({ length: 20 }, (_, index) => `op_${index}` as WorkflowId);

let database: TestDatabase;
let directory: string;
let eventFile: string;
const replicas: ChildProcess[] = [];
const output: string[] = [];

beforeEach(async () => {
  database = await emptyDatabase();
  directory = mkdtempSync(join(tmpdir(), 'slipway-engine-'));
  eventFile = join(directory, 'eventFile');
  writeFileSync(eventFile, '');
  output.length = 0;
});

afterEach(async () => {
  await Promise.all(replicas.splice(0).map(kill));
  rmSync(directory, { recursive: true });
  await database.drop();
});

async function kill(replica: ChildProcess): Promise<void> {
  if (replica.exitCode !== null || replica.signalCode !== null) return;
  const exited = new Promise((resolve) => replica.once('exit', resolve));
  replica.kill('SIGKILL');
  await exited;
}

function replica(options: Omit<ReplicaOptions, 'connectionString' | 'eventFile'>): ChildProcess {
  const child = spawn(
    process.execPath,
    [script, JSON.stringify({ ...options, connectionString: database.url, eventFile } satisfies ReplicaOptions)],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => output.push(String(chunk)));
  replicas.push(child);
  return child;
}

const lines = () => readFileSync(eventFile, 'utf8').split('\n').filter(Boolean);

async function untilWritten(line: string | RegExp, times = 1): Promise<void> {
  const giveUpMs = systemClock.monotonicMs() + timeoutMs;
  const isWanted = (one: string) => (typeof line === 'string' ? one === line : line.test(one));
  while (lines().filter(isWanted).length < times) {
    if (systemClock.monotonicMs() > giveUpMs)
      throw new Error(`${line} not in: ${lines().join(', ')} ${output.join('')}`);
    await pause(systemClock, 10);
  }
}

test('another replica finishes the run of a killed one without repeating finished steps', async () => {
  const doomed = replica({ executor_id: 'doomed', start: [workflow_id], hang_in: 'two' });
  await untilWritten('doomed two');
  await kill(doomed);
  const survivor = replica({ executor_id: 'survivor', recover: ['doomed'] });
  await untilWritten(/^survivor ended/);
  expect(lines()).toEqual([
    'doomed launched',
    'doomed executing',
    'doomed one',
    'doomed two',
    'survivor launched',
    'survivor recovered 1',
    'survivor executing',
    'survivor two',
    'survivor three',
    `survivor ended ${JSON.stringify({ status: 'succeeded', result: [doomed.pid, survivor.pid, survivor.pid] })}`,
  ]);
  expect(output).toEqual([]);
});

test('a halted replica takes no recovered run from the queue', async () => {
  const leaving = replica({ executor_id: 'leaving', start: manyRuns, hang_in: 'two' });
  await untilWritten('leaving two', manyRuns.length);
  leaving.kill('SIGTERM');
  await untilWritten('leaving halted');
  replica({ executor_id: 'survivor', recover: ['leaving'] });
  await untilWritten(/^survivor ended/, manyRuns.length);
  expect(output).toEqual([]);
});

test('replicas that start at the same time on an empty database all launch', async () => {
  const names = ['left', 'middle', 'right'];
  for (const executor_id of names) replica({ executor_id });
  for (const name of names) await untilWritten(`${name} launched`);
  expect(output).toEqual([]);
});
