/**
 * The shim is the parent of one run of the command. It outlives the agent, so that an agent can be
 * restarted or upgraded while the command runs: the shim keeps reading the output, in bounded
 * space, and records how the command ended. The next agent reads both from files.
 */
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { systemClock } from '../../../base/clock.ts';
import { writeAtomically } from '../../state/durable-file.ts';
import { errorText } from '../../state/shape.ts';
import { logOutput } from '../child-output.ts';
import { createSecretRedactor } from '../known-secrets.ts';
import { signalGroup } from '../process-group.ts';
import { readProcess } from '../process-table.ts';
import { openOutput } from './output-writer.ts';
import { type CommandEnd, commandSpecFrom, endedFile, outputDirectory, startedFile, unseenEnd } from './run-files.ts';

export async function runShim(directory: string): Promise<void> {
  // If the agent dies before the whole text has arrived, the command is not started.
  const spec = commandSpecFrom(JSON.parse(await text(process.stdin)));
  if (!spec) throw new Error('the standard input is not a command');
  const output = openOutput(outputDirectory(directory), systemClock, createSecretRedactor(spec.env, spec.secret_env));
  const [program = '', ...args] = spec.argv;
  const { cwd, env } = spec;
  const child = spawn(program, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let isRecorded = false;
  /**
   * Records only the first end: the exit status of a command that the shim killed is meaningless.
   */
  const record = (end: Partial<CommandEnd>) => {
    if (isRecorded) return;
    isRecorded = true;
    try {
      writeAtomically(endedFile(directory), JSON.stringify({ ...unseenEnd, ...end }));
    } catch (error) {
      // The agent sees the end of the shim anyway, and reports an unknown exit status.
      process.stderr.write(`${String(error)}\n`);
    }
  };
  let hasEnded = false;
  // While the command runs, the shim ignores signals, so that it reads all output. After the
  // command has exited, a signal closes the pipes: daemons that it started may hold them open
  // forever.
  const onSignal = () => {
    if (hasEnded) for (const pipe of [child.stdout, child.stderr]) pipe.destroy();
  };
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, onSignal);
  const { isCrowded } = output;
  for (const stream of ['stdout', 'stderr'] as const)
    logOutput(child[stream], stream, { clock: systemClock, log: output, isCrowded });
  child.once('error', ({ message }) => record({ start_error: message }));
  child.once('exit', (exit_code, signal) => {
    hasEnded = true;
    record({ exit_code, signal });
  });
  const { pid } = child;
  if (pid !== undefined) {
    const start = readProcess(pid)?.start ?? '';
    try {
      writeAtomically(startedFile(directory), JSON.stringify({ pid, start }));
    } catch (error) {
      // A later agent could not find this command, and would start a second one beside it.
      signalGroup(pid, 'SIGKILL');
      record({ start_error: errorText(error) });
    }
  }
}
