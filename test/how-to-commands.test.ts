/**
 * Runs the commands in the shell blocks of docs/how-to against a real server, with their
 * placeholders filled (how-to/fixture.ts). A command that cannot run here has its reason in
 * how-to/not-run.ts.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { type CommandBlock, commandsIn, shellBlocks } from './how-to/blocks.ts';
import { type HowToHost, openHowToHost } from './how-to/fixture.ts';
import { notRun, reasonNotToRun } from './how-to/not-run.ts';
import { until } from './support/until.ts';

const folder = fileURLToPath(new URL('../docs/how-to/', import.meta.url));
const blocks = readdirSync(folder)
  .filter((page) => page.endsWith('.md'))
  .toSorted()
  .flatMap((page) => shellBlocks(page, readFileSync(join(folder, page), 'utf8')));
const documented = blocks.flatMap(({ commands }) => commands);

/** Programs that run until a signal, with the output of one that is ready. */
const lasting = [
  { command: /\bslipway serve\b/, ready: /Console\s+http/ },
  { command: /\bslipway relay\b/, ready: /Relay\s+http/ },
  { command: /\bslipway agent --/, ready: /"registered/ },
  { command: /\bslipway logs \S+ -f/, ready: /hello/ },
];

interface Run {
  child: ChildProcess;
  output(): string;
}

/** The shell ignores SIGTERM, so that it passes on the exit code of the program that gets it. */
function startShell(script: string, cwd: string, env: NodeJS.ProcessEnv): Run {
  const child = spawn('bash', ['-c', `set -eu\ntrap : TERM\n${script}`], {
    cwd,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      text += chunk;
    });
  return { child, output: () => text };
}

const hasEnded = ({ child }: Run): boolean => child.exitCode !== null || child.signalCode !== null;

/** A shell and what it started are a group of their own. */
function signalGroup({ child }: Run, signal: NodeJS.Signals): void {
  if (child.pid) process.kill(-child.pid, signal);
}

async function expectSuccess(command: string, run: Run): Promise<void> {
  const isOver = await until(`the end of ${command}`, () => hasEnded(run), { seconds: 100 }).catch(() => false);
  expect(isOver ? run.child.exitCode : 'it did not end', `${command}\n${run.output()}`).toBe(0);
}

/** Runs the commands in their order. Programs that last run until the end of the block. */
async function runBlock(host: HowToHost, block: CommandBlock): Promise<void> {
  const undo = await host.prepare(block);
  const env = host.environmentOf(block);
  const running: { command: string; run: Run }[] = [];
  let variables = '';
  try {
    for (const documentedCommand of block.commands.filter((command) => reasonNotToRun(command) === undefined)) {
      const command = host.fill(documentedCommand, block);
      const run = startShell(`${variables}${command}`, host.directory, env);
      running.push({ command, run });
      if (command.startsWith('export ')) variables += `${command}\n`;
      const program = lasting.find((each) => each.command.test(documentedCommand));
      if (program) {
        const isReady = () => {
          if (hasEnded(run)) throw new Error(`${command} ended:\n${run.output()}`);
          return program.ready.test(run.output());
        };
        await until(`${command} to be ready`, isReady, { seconds: 100 }).catch((error: Error) => {
          throw new Error(`${error.message}\n${run.output()}`);
        });
      } else await expectSuccess(command, run);
    }
    for (const { command, run } of running.toReversed().filter((each) => !hasEnded(each.run))) {
      signalGroup(run, 'SIGTERM');
      await expectSuccess(command, run);
    }
  } finally {
    for (const { run } of running.filter((each) => !hasEnded(each.run))) signalGroup(run, 'SIGKILL');
    await undo();
  }
}

test('reads commands of one line, of several lines and with a here-document', () => {
  const lines = ['# a comment', 'one \\', '  --flag', '', "two <<'EOF'", 'text', '', 'EOF', 'three   # a comment'];
  expect(commandsIn(lines)).toEqual(['one \\\n  --flag', "two <<'EOF'\ntext\n\nEOF", 'three   # a comment']);
  expect(() => commandsIn(['one \\'])).toThrow('has no end');
  expect(() => shellBlocks('page.md', '```bash\nslipway nodes\n```')).toThrow('page.md:1');
  expect(shellBlocks('page.md', 'text\n```sh\nslipway nodes\n```\n')).toEqual([
    { page: 'page.md', line: 2, commands: ['slipway nodes'] },
  ]);
});

test('every reason not to run a command belongs to a documented command', () => {
  expect(documented.length).toBeGreaterThan(70);
  for (const { part } of notRun) {
    const commands = documented.filter((command) => command.includes(part));
    expect(commands, `no page has a command with ${part}`).not.toEqual([]);
  }
  for (const command of documented) {
    const reason = reasonNotToRun(command);
    if (reason) console.log(`not run: ${command.split('\n')[0]}\n  because: ${reason}`);
  }
});

describe('the commands of a page run', () => {
  let host: HowToHost;
  beforeAll(async () => {
    host = await openHowToHost();
    return () => host.stop();
    // The server creates its embedded database, and a machine boots.
  }, 300_000);

  const isRunnable = ({ commands }: CommandBlock) => commands.some((command) => reasonNotToRun(command) === undefined);
  // Each command has its own limit (`until`), and some blocks back up, restore and start servers.
  test.each(blocks.filter(isRunnable))('$page, block at line $line', (block) => runBlock(host, block), 400_000);
});
