/** Tests the shim alone, as a real process. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { agentProgram } from '../../testing/agent-process.ts';
import { listProcesses, readCommandLine } from '../process-table.ts';
import { type CommandSpec, outputDirectory, readEnded, startedFile } from './run-files.ts';
import { shimArgument } from './shim-argument.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'slipway-shim-'));
  mkdirSync(outputDirectory(dir));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function run(script: string) {
  const [program = '', ...args] = agentProgram;
  const child = spawn(program, [...args, shimArgument, dir], { stdio: ['pipe', 'ignore', 'inherit'] });
  const spec: CommandSpec = {
    argv: ['/bin/sh', '-c', script],
    cwd: dir,
    env: { PATH: '/usr/bin:/bin' },
    secret_env: [],
  };
  child.stdin?.end(JSON.stringify(spec));
  await once(child, 'exit');
}

test('records how the command ended', async () => {
  await run('exit 7');
  expect(readEnded(dir)).toEqual({ exit_code: 7, signal: null, start_error: null });
  expect(JSON.parse(readFileSync(startedFile(dir), 'utf8'))).toHaveProperty('pid');
});

test('ends a command whose start it cannot record', async () => {
  // As on a full disk, the new file cannot be created: a directory has its name.
  mkdirSync(`${startedFile(dir)}.new`);
  const marker = `sleep 0.01; : ${dir}`;
  await run(`while :; do ${marker}; done`);
  expect(readEnded(dir)).toMatchObject({
    exit_code: null,
    signal: null,
    start_error: expect.stringContaining('EISDIR'),
  });
  expect(listProcesses().filter(({ pid }) => readCommandLine(pid).includes(marker))).toEqual([]);
});
