import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import type { Log } from '../log.ts';
import { until } from '../testing/agent-process.ts';
import { defaultTiming } from '../timing.ts';
import { type Command, superviseCommand } from './command.ts';
import { processRows } from './process-table.ts';

const dirs: string[] = [];
const commands: Command[] = [];
afterEach(async () => {
  for (const command of commands.splice(0)) await command.stop(100);
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
});

const timing = {
  ...defaultTiming,
  ready_after_ms: 50,
  command_restart: { first_ms: 20, max_ms: 50 },
  crash_loop: { exits: 3, window_ms: 1_500 },
};

function supervised(
  script: string,
  env: NodeJS.ProcessEnv = {},
  ready_after_ms = timing.ready_after_ms,
  isCrowded = () => false,
) {
  const dir = mkdtempSync(join(tmpdir(), 'slipway-command-'));
  dirs.push(dir);
  const seen: string[] = [];
  const pids: number[] = [];
  const lines: string[] = [];
  const log: Log = {
    info() {},
    warn() {},
    error() {},
    with: () => log,
    lines: (stream, some) => void lines.push(...some.map((line) => `${stream} ${line}`)),
  };
  const command = superviseCommand({
    argv: ['/bin/sh', '-c', script],
    cwd: dir,
    env: () => ({ PATH: process.env.PATH, ...env }),
    clock: systemClock,
    log,
    timing: { ...timing, ready_after_ms },
    isCrowded,
    events: {
      launched: (pid) => void pids.push(pid),
      ready: () => void seen.push('ready'),
      ended: (how) => void seen.push(how),
      crashLooping: () => void seen.push('crash loop'),
    },
  });
  commands.push(command);
  return { command, seen, pids, lines, dir };
}

const readIfThere = (path: string) => (existsSync(path) ? readFileSync(path, 'utf8') : '');

/** Zombies do not count. */
const lives = (pid: number) => processRows().some((row) => row.pid === pid);

test('is ready after a moment, and its output is logged by stream', async () => {
  const { command, seen, lines } = supervised('echo out; echo err >&2; sleep 60');
  command.start();
  await until(() => seen.includes('ready') && lines.length === 2, 'ready with output');
  expect(lines.toSorted()).toEqual(['stderr err', 'stdout out']);
});

test('a command that announces readiness is ready when it says so', async () => {
  const script = 'while [ ! -e go ]; do sleep 0.02; done; echo SLIPWAY_READY; sleep 60';
  const { command, seen, lines, dir } = supervised(`echo up; sleep 0.2; echo still not; ${script}`, {
    SLIPWAY_READY_LINE: '1',
  });
  command.start();
  await until(() => lines.includes('stdout still not'), 'longer up than the usual moment');
  expect(seen).toEqual([]);
  writeFileSync(join(dir, 'go'), '');
  await until(() => seen.includes('ready'), 'ready');
});

test('restarts a command that ended, after ending its leftovers', async () => {
  const { command, seen, pids, dir } = supervised(
    'sleep 60 & if [ -e left ]; then wait; fi; echo $! > left; while [ ! -e go ]; do sleep 0.02; done; exit 3',
  );
  command.start();
  // It may run for a moment before it ends, so let it end only once it was ready.
  await until(() => seen.includes('ready') && readIfThere(join(dir, 'left')).endsWith('\n'), 'first start');
  const left = Number(readIfThere(join(dir, 'left')));
  expect(lives(left)).toBe(true);
  writeFileSync(join(dir, 'go'), '');
  await until(() => pids.length === 2 && seen.length === 3, 'ready again');
  expect(seen).toEqual(['ready', 'exited with code 3', 'ready']);
  expect(lives(left)).toBe(false);
});

test('repeated exits are a crash loop, until the command stays up', async () => {
  // It always ends before it could be ready, however slowly a busy machine starts it.
  const { command, seen, dir } = supervised('if [ -e hold ]; then sleep 60; fi; exit 1', {}, 60_000);
  command.start();
  await until(() => seen.includes('crash loop'), 'a crash loop');
  expect(seen.filter((what) => what === 'exited with code 1').length).toBeGreaterThanOrEqual(timing.crash_loop.exits);
  expect(seen).not.toContain('ready');
  writeFileSync(join(dir, 'hold'), '');
  await until(() => seen.at(-1) === 'ready', 'ready after a window without an end');
});

test('a missing program counts as an exit', async () => {
  const { seen } = supervised('true');
  const missing = superviseCommand({
    argv: ['/nonexistent/program'],
    cwd: tmpdir(),
    env: () => ({}),
    clock: systemClock,
    log: { info() {}, warn() {}, error() {}, with: () => Object.create(null), lines() {} },
    timing,
    isCrowded: () => false,
    events: {
      launched() {},
      ready() {},
      ended: (how) => void seen.push(how),
      crashLooping: () => void seen.push('loop'),
    },
  });
  commands.push(missing);
  missing.start();
  await until(() => seen.includes('loop'), 'a crash loop');
  expect(seen[0]).toContain('could not be started');
});

test('stop sends SIGTERM, then kills the whole group, and nothing is restarted', async () => {
  const { command, lines, pids, dir } = supervised("trap '' TERM; sleep 60 & echo $! > child; echo up; wait; wait");
  command.start();
  await until(() => lines.includes('stdout up'), 'up, with its child');
  const child = Number(readFileSync(join(dir, 'child'), 'utf8'));
  expect(await command.stop(100)).toBe(true);
  expect([lives(child), pids.length]).toEqual([false, 1]);
});

test('output written before the stop is read to the end, however slowly', async () => {
  const script = 'trap "seq 12000; exit" TERM; echo up; sleep 60 & wait';
  const { command, lines } = supervised(script, {}, timing.ready_after_ms, () => true);
  command.start();
  await until(() => lines.includes('stdout up'), 'the command runs');
  await command.stop(5_000);
  await command.outputEnds();
  expect(lines.at(-1)).toBe('stdout 12000');
});
