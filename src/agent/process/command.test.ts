import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import type { Log } from '../log.ts';
import { openSpool } from '../spool/spool.ts';
import { agentProgram, until } from '../testing/agent-process.ts';
import { defaultTiming } from '../timing.ts';
import { type Command, superviseCommand } from './command.ts';
import { commandRecords } from './command-record.ts';
import { listProcesses } from './process-table.ts';

const dirs: string[] = [];
const commands: Command[] = [];
afterEach(async () => {
  for (const command of commands.splice(0)) {
    await command.stop(100);
    await command.waitForOutputEnd();
  }
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
});

const timing = {
  ...defaultTiming,
  ready_after_ms: 50,
  command_restart: { first_ms: 20, max_ms: 50 },
  crash_loop: { exits: 3, window_ms: 1_500 },
};

type Rest = [env?: NodeJS.ProcessEnv, ready_after_ms?: number, isCrowded?: () => boolean];

const supervise = (script: string, ...rest: Rest) => superviseArgv(['/bin/sh', '-c', script], ...rest);

function superviseArgv(
  argv: string[],
  env: NodeJS.ProcessEnv = {},
  ready_after_ms = timing.ready_after_ms,
  isCrowded = () => false,
) {
  const dir = mkdtempSync(join(tmpdir(), 'slipway-command-'));
  dirs.push(dir);
  const eventLog: string[] = [];
  const pids: number[] = [];
  const lines: string[] = [];
  const warnings: string[] = [];
  const log: Log = {
    info: (message, facts) => void (message === 'command started' && pids.push(Number(facts?.pid))),
    warn: (message) => void warnings.push(message),
    error() {},
    with: () => log,
    lines: (stream, logged) => void lines.push(...logged.map((line) => `${stream} ${line}`)),
  };
  const command = superviseCommand({
    argv,
    config: { work_dir: dir, secret_env: [] },
    env: () => ({ PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, ...env }),
    clock: systemClock,
    log,
    timing: { ...timing, ready_after_ms },
    spool: { ...openSpool(join(dir, 'spool'), systemClock), isCrowded },
    agent_program: agentProgram,
    records: commandRecords(dir),
    owner: 'owner',
    command_digest: 'digest',
    node_instance_id: () => null,
    leftovers: () => [],
    events: {
      ready: () => void eventLog.push('ready'),
      ended: (ending) => void eventLog.push(ending),
      crashLooping: () => void eventLog.push('crash loop'),
    },
  });
  commands.push(command);
  return { command, eventLog, pids, lines, warnings, dir };
}

const readIfExists = (path: string) => (existsSync(path) ? readFileSync(path, 'utf8') : '');

/** Zombies do not count. */
const isAlive = (pid: number) => listProcesses().some((row) => row.pid === pid);

test('a command is ready after a short time, and its output is logged with the name of the stream', async () => {
  const { command, eventLog, lines } = supervise('echo out; echo err >&2; sleep 60');
  command.start();
  await until(() => eventLog.includes('ready') && lines.length === 2, 'ready with output');
  expect(lines.toSorted()).toEqual(['stderr err', 'stdout out']);
});

test('a command with SLIPWAY_READY_LINE=1 is ready only when it prints the ready line', async () => {
  const script = 'while [ ! -e go ]; do sleep 0.02; done; echo SLIPWAY_READY; sleep 60';
  const { command, eventLog, lines, dir } = supervise(`echo up; sleep 0.2; echo still not; ${script}`, {
    SLIPWAY_READY_LINE: '1',
  });
  command.start();
  await until(() => lines.includes('stdout still not'), 'the command to run longer than the default ready time');
  expect(eventLog).toEqual([]);
  writeFileSync(join(dir, 'go'), '');
  await until(() => eventLog.includes('ready'), 'ready');
});

test('ends the remaining processes of a command that exited, then restarts the command', async () => {
  const { command, eventLog, pids, dir } = supervise(
    'sleep 60 & if [ -e leftover ]; then wait; fi; echo $! > leftover; while [ ! -e go ]; do sleep 0.02; done; exit 3',
  );
  command.start();
  // The command must not end before it was ready, or the order of the events would vary.
  await until(() => eventLog.includes('ready') && readIfExists(join(dir, 'leftover')).endsWith('\n'), 'first start');
  const leftoverPid = Number(readIfExists(join(dir, 'leftover')));
  expect(isAlive(leftoverPid)).toBe(true);
  writeFileSync(join(dir, 'go'), '');
  await until(() => pids.length === 2 && eventLog.length === 3, 'ready again');
  expect(eventLog).toEqual(['ready', 'exited with code 3', 'ready']);
  expect(isAlive(leftoverPid)).toBe(false);
});

test('reports a crash loop after repeated exits, and ready after the command stays up', async () => {
  // With this ready time the command always exits before it is ready, even on a busy machine.
  const { command, eventLog, dir } = supervise('if [ -e hold ]; then sleep 60; fi; exit 1', {}, 60_000);
  command.start();
  await until(() => eventLog.includes('crash loop'), 'a crash loop');
  expect(eventLog.filter((event) => event === 'exited with code 1').length).toBeGreaterThanOrEqual(
    timing.crash_loop.exits,
  );
  expect(eventLog).not.toContain('ready');
  writeFileSync(join(dir, 'hold'), '');
  await until(() => eventLog.at(-1) === 'ready', 'ready after a window without an exit');
});

test('a program that cannot be started counts as an exit', async () => {
  const { command: missing, eventLog } = superviseArgv(['/nonexistent/program']);
  missing.start();
  await until(() => eventLog.includes('crash loop'), 'a crash loop');
  expect(eventLog[0]).toContain('could not be started');
});

test('stop sends SIGTERM, kills the whole group after the grace time, and does not restart the command', async () => {
  const { command, lines, pids, dir } = supervise("trap '' TERM; sleep 60 & echo $! > child; echo up; wait; wait");
  command.start();
  await until(() => lines.includes('stdout up'), 'the command to run with its child');
  const child = Number(readFileSync(join(dir, 'child'), 'utf8'));
  expect(await command.stop(100)).toBe(true);
  expect([isAlive(child), pids.length]).toEqual([false, 1]);
});

test('waitForOutputEnd waits for all output written before the stop, even if it is read slowly', async () => {
  const script = 'trap "seq 12000; exit" TERM; echo up; sleep 60 & wait';
  const { command, lines } = supervise(script, {}, timing.ready_after_ms, () => true);
  command.start();
  await until(() => lines.includes('stdout up'), 'the command to run');
  await command.stop(5_000);
  await command.waitForOutputEnd();
  expect(lines.at(-1)).toBe('stdout 12000');
});

test('reports the end only after the last line, even if the output is read slowly', async () => {
  const script = 'while [ ! -e go ]; do sleep 0.02; done; rm go; seq 12000; exit 3';
  const { command, eventLog, lines, dir } = supervise(script, {}, timing.ready_after_ms, () => true);
  command.start();
  await until(() => eventLog.includes('ready'), 'ready');
  writeFileSync(join(dir, 'go'), '');
  await until(() => eventLog.includes('exited with code 3'), 'the end');
  expect(lines.at(-1)).toBe('stdout 12000');
});

describe('while the disk refuses the record of the command', () => {
  const obstruct = (dir: string) => {
    const obstacle = join(dir, 'command.json.new');
    mkdirSync(obstacle);
    return () => rmSync(obstacle, { recursive: true });
  };
  const script = 'while [ ! -e go ]; do sleep 0.02; done; rm go; exit 3';

  test('reports an end, leaves no shim, and starts the command again once the disk is free', async () => {
    const { command, eventLog, pids, warnings, dir } = supervise(script);
    command.start();
    await until(() => eventLog.includes('ready'), 'ready');
    const free = obstruct(dir);
    const children = () => listProcesses().filter(({ ppid }) => ppid === process.pid).length;
    const before = children();
    writeFileSync(join(dir, 'go'), '');
    await until(() => eventLog.includes('exited with code 3'), 'the end');
    const failedStarts = () => warnings.filter((warning) => warning.includes('could not be started')).length;
    await until(() => failedStarts() > 1, 'failed starts');
    free();
    await until(() => pids.length === 2 && eventLog.at(-1) === 'ready', 'ready again');
    await until(() => children() === before, 'no shim without a command');
  });

  test('stop ends the command', async () => {
    const { command, eventLog, pids, dir } = supervise(script);
    command.start();
    await until(() => eventLog.includes('ready'), 'ready');
    obstruct(dir);
    expect(await command.stop(100)).toBe(true);
    expect(pids.map(isAlive)).toEqual([false]);
  });
});
