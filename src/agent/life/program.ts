/**
 * The agent as a program: reads the options, runs the agent, and exits with a code that states why
 * it ended.
 */
import { systemClock } from '../../base/clock.ts';
import { printableText } from '../../base/redaction/printable.ts';
import { runAgent } from '../agent.ts';
import { agentDoctor } from '../doctor.ts';
import { configFromCommandLine, usage } from '../options.ts';
import { type AgentConfig, UsageError } from '../state/config.ts';
import { errorCode, errorText } from '../state/shape.ts';
import { agentDirectory, makeAgentDirectory, unlockDirectory, waitForLock } from '../state/state-file.ts';
import { defaultTiming } from '../timing.ts';
import { endMessage, messageFor } from './end-message.ts';
import { type AgentEnd, exitCodes, occupiedExitCode, removeExitFile, usageExitCode, writeExitFile } from './exit.ts';

function exit(exit_code: number, message: string | null): never {
  if (message) process.stderr.write(printableText(message));
  process.exit(exit_code);
}

async function prepareDirectory(config: AgentConfig): Promise<void> {
  try {
    makeAgentDirectory(config.dir);
    const holderPid = await waitForLock(agentDirectory(config.dir), systemClock);
    if (holderPid !== null) exit(occupiedExitCode, messageFor('occupied', `process ${holderPid}`, config));
    removeExitFile(config.dir);
  } catch (error) {
    const message = messageFor(errorCode(error) ?? '', errorText(error), config);
    if (!message) throw error;
    exit(usageExitCode, message);
  }
}

function readConfig(): AgentConfig {
  try {
    const config = configFromCommandLine(process.argv.slice(2), process.env, (text) =>
      process.stderr.write(`slipway agent: ${text}\n`),
    );
    if (config) return config;
    process.stdout.write(usage);
    process.exit(0);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return exit(usageExitCode, messageFor('usage', error.message, { server_url: '', dir: '' }));
  }
}

/** `file` is the agent's file, which is also the shim of its command. */
export async function runProgram(file: string): Promise<never> {
  if (process.argv[2] === 'doctor')
    process.exit(
      await agentDoctor(process.argv.slice(3), process.env, {
        clock: systemClock,
        out: (line) => process.stdout.write(`${printableText(line)}\n`),
        err: (line) => process.stderr.write(`${printableText(line)}\n`),
      }),
    );
  const config = readConfig();
  await prepareDirectory(config);

  const finish = (end: AgentEnd): never => {
    writeExitFile(config.dir, end, systemClock);
    unlockDirectory(agentDirectory(config.dir));
    return exit(exitCodes[end.code], endMessage(end, config));
  };

  const stop = new AbortController();
  let endsCommand = false;
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, () => {
      // A SIGINT during the stop exits at once. The `exit` handlers kill the command if this stop
      // ends it.
      if (stop.signal.aborted && signal === 'SIGINT') process.exit(1);
      // Only the first signal decides. A service manager may send another one.
      if (stop.signal.aborted) return;
      endsCommand = signal === 'SIGINT' || config.stop_ends_command;
      stop.abort();
    });
  process.on('uncaughtException', (error) => {
    process.stderr.write(`${error.stack}\n`);
    finish({ code: 'agent_crashed', reason: error.stack ?? error.message });
  });
  // The reader closed stdout. The agent continues, because the spool holds every line.
  process.stdout.on('error', (error) => {
    if (errorCode(error) !== 'EPIPE') throw error;
  });

  return finish(
    await runAgent(config, {
      clock: systemClock,
      timing: defaultTiming,
      env: process.env,
      stop: stop.signal,
      stopEndsCommand: () => endsCommand,
      agent_program: [process.execPath, file],
      print: (line) => process.stdout.write(`${printableText(line)}\n`),
      atExit: (run) => process.on('exit', () => endsCommand && run()),
    }),
  );
}
