/** Tests the lock of the agent's directory, and how long a start waits for it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { until } from '../../../test/support/until.ts';
import { systemClock } from '../../base/clock.ts';
import { readProcess } from '../process/process-table.ts';
import { lockDirectory, waitForLock } from './state-file.ts';

let directory: string;
let holder: ChildProcess;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'slipway-lock-'));
});
afterEach(() => {
  holder.kill('SIGKILL');
  rmSync(directory, { recursive: true });
});

const holdLock = (pid: number) =>
  writeFileSync(join(directory, 'agent.pid'), JSON.stringify({ pid, start: readProcess(pid)?.start }));

test('a zombie holds no lock', async () => {
  // The shell becomes a program that never reaps its child.
  holder = spawn('sh', ['-c', 'sleep 0 & echo $!; exec sleep 1000'], { stdio: ['ignore', 'pipe', 'ignore'] });
  const [line] = await once(createInterface({ input: holder.stdout as NodeJS.ReadableStream }), 'line');
  const pid = Number(line);
  await until('the child to end', () => readProcess(pid)?.state === 'Z');
  holdLock(pid);
  expect(lockDirectory(directory)).toBeNull();
});

test('waits for a holder that is ending, and returns the pid of one that stays', async () => {
  holder = spawn('sleep', ['1000']);
  await once(holder, 'spawn');
  const pid = holder.pid ?? 0;
  holdLock(pid);
  expect(await waitForLock(directory, systemClock)).toBe(pid);
  const waiting = waitForLock(directory, systemClock);
  holder.kill('SIGKILL');
  expect(await waiting).toBeNull();
});
