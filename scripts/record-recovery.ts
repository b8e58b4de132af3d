/**
 * Records docs/images/recovery.svg, the film of README.md: `bin/run scripts/record-recovery.ts`.
 *
 * Starts a real server and runs the real CLI in a pseudo-terminal. A machine comes up, its release
 * begins, `kill -9` ends the server, and the next server finishes the release. This script adds
 * only prompts and captions, and cuts the start message of the server to its first line.
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { pause, systemClock } from '../src/base/clock.ts';
import { until } from '../test/support/until.ts';
import { drawFilm, type Frame } from './recording/film.ts';
import type { Line } from './recording/screen.ts';
import { Terminal } from './recording/terminal.ts';

const { values } = parseArgs({ options: { help: { type: 'boolean', short: 'h' } } });
if (values.help) {
  process.stdout.write('Usage: bin/run scripts/record-recovery.ts\n\nWrites docs/images/recovery.svg.\n');
  process.exit(0);
}

const root = join(import.meta.dirname, '..');
const filmPath = join(root, 'docs/images/recovery.svg');
const port = 7979;
const columns = 80;
const typingMs = 35;
const readingMs = 1500;
const pauseMs = 2000;
const maxMs = 30_000;

/** The machine boots in three stages and cleans slowly, so that the film shows each step. */
const pool = `name: web
driver: local
spec:
  boot_stages: [{ name: image, seconds: 2 }, { name: packages, seconds: 1.5 }, { name: workload, seconds: 1 }]
  clean: sleep 3
`;

const directory = mkdtempSync(join(tmpdir(), 'slipway-film-'));
// As root, PostgreSQL runs under another account, which must be able to enter the directory.
chmodSync(directory, 0o755);
const environment = { SLIPWAY_SERVER: `http://127.0.0.1:${port}`, SLIPWAY_DATA_DIR: join(directory, 'data') };

const frames: Frame[] = [];
let startedMs = 0;
let caption = 'A machine comes up';

const userTerminal = new Terminal(takeFrame);
const serverTerminal = new Terminal(takeFrame);

const isShownServerLine = (line: Line) => /^\$ |is ready|Killed/.test(textOf(line).trim());
const textOf = (line: Line) => line.map(({ text }) => text).join('');
const trimStart = ([first, ...rest]: Line): Line =>
  first ? [{ ...first, text: first.text.trimStart() }, ...rest] : [];

function takeFrame(): void {
  if (startedMs === 0) return;
  const server = serverTerminal.screen.lines().filter(isShownServerLine).map(trimStart);
  const atMs = Math.round(systemClock.monotonicMs() - startedMs);
  frames.push({ atMs, caption, panes: [userTerminal.screen.lines(), server] });
}

function say(text: string): void {
  caption = text;
  takeFrame();
}

async function type(terminal: Terminal, command: string): Promise<void> {
  terminal.show('$ ');
  for (const character of command) {
    terminal.show(character);
    await pause(systemClock, typingMs);
  }
  terminal.show('\r\n');
}

const run = (terminal: Terminal, command: string) => terminal.run(command, { cwd: root, environment, columns });
const waitForText = (terminal: Terminal, text: string, times = 1) =>
  until(text, () => terminal.screen.lines().filter((line) => textOf(line).includes(text)).length >= times);

const pidFile = join(directory, 'pid');

/** The outer shell reports how the server ended, as the shell of a person would. */
async function startServer(times: number): Promise<void> {
  const serve = `exec ./bin/slipway serve --port ${port} --data-dir ${environment.SLIPWAY_DATA_DIR}`;
  run(serverTerminal, `sh -c 'echo $$ > ${pidFile}; ${serve}'; true`);
  await waitForText(serverTerminal, 'is ready', times);
}

const signalServer = (signal: NodeJS.Signals) => process.kill(Number(readFileSync(pidFile, 'utf8')), signal);

async function record(): Promise<void> {
  const poolFile = join(directory, 'web.yaml');
  writeFileSync(poolFile, pool);
  serverTerminal.show('$ ./bin/slipway serve\r\n');
  await startServer(1);
  await run(new Terminal(() => {}), `./bin/slipway apply -f ${poolFile}`).ended;

  startedMs = systemClock.monotonicMs();
  await type(userTerminal, './bin/slipway allocate --pool web --name shop --wait');
  await run(userTerminal, './bin/slipway allocate --pool web --name shop --wait').ended;
  await pause(systemClock, readingMs);

  say('You release it');
  userTerminal.show('\r\n');
  await type(userTerminal, './bin/slipway release shop --wait');
  const release = run(userTerminal, './bin/slipway release shop --wait');
  await waitForText(userTerminal, 'Step 5/7');
  await pause(systemClock, pauseMs);

  say('kill -9: the server dies in the middle of the release');
  signalServer('SIGKILL');
  await waitForText(serverTerminal, 'Killed');
  await pause(systemClock, pauseMs);
  await type(serverTerminal, './bin/slipway serve');
  await startServer(2);
  say('The next server continues the release where it stopped');
  await release.ended;
  say('Released: the machine is proven gone');
}

/** Plays a long recording faster. The seconds on the screen stay as recorded. */
const limitLength = (all: Frame[], longestMs: number): Frame[] => {
  const speed = Math.max(1, (all.at(-1)?.atMs ?? 0) / longestMs);
  return all.map((frame) => ({ ...frame, atMs: Math.round(frame.atMs / speed) }));
};

try {
  await record().catch((error) => {
    process.stderr.write(`${serverTerminal.screen.lines().map(textOf).join('\n')}\n`);
    throw error;
  });
  signalServer('SIGTERM');
  const film = {
    title: 'A machine comes up; its release survives the death of the server',
    panes: [
      { title: 'your terminal', rows: 21 },
      { title: 'the server', rows: 6 },
    ],
    frames: limitLength(frames, maxMs),
    holdMs: 6000,
  };
  writeFileSync(filmPath, drawFilm(film));
} finally {
  rmSync(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
}
