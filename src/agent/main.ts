/** The agent's process: reads how it was started, lives, and ends with a code that says how. */
import { systemClock } from '../base/clock.ts';
import { runAgent } from './agent.ts';
import { type AgentConfig, UsageError } from './config.ts';
import { lockDirectory, unlockDirectory } from './directory-lock.ts';
import { agentDoctor } from './doctor.ts';
import { type AgentEnd, exitCodes, occupiedExitCode, removeExitFile, usageExitCode, writeExitFile } from './exit.ts';
import { configFromCommandLine, usage } from './options.ts';
import { errorCode } from './shape.ts';
import { agentDirectory, makeAgentDirectory } from './state-file.ts';
import { defaultTiming } from './timing.ts';

function commandLine(): AgentConfig {
  try {
    const config = configFromCommandLine(process.argv.slice(2), process.env);
    if (config) return config;
    process.stdout.write(usage);
    process.exit(0);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`slipway agent: ${error.message}\n\n${usage}`);
    process.exit(usageExitCode);
  }
}

if (process.argv[2] === 'doctor')
  process.exit(
    await agentDoctor(process.argv.slice(3), process.env, {
      clock: systemClock,
      out: (line) => process.stdout.write(`${line}\n`),
      err: (line) => process.stderr.write(`${line}\n`),
    }),
  );

const config = commandLine();
makeAgentDirectory(config.dir);
const other = lockDirectory(agentDirectory(config.dir));
if (other !== null) {
  process.stderr.write(`slipway agent: process ${other} is already the agent of ${config.dir}\n`);
  process.exit(occupiedExitCode);
}
removeExitFile(config.dir);

const finish = (end: AgentEnd): never => {
  writeExitFile(config.dir, end, systemClock);
  unlockDirectory(agentDirectory(config.dir));
  process.exit(exitCodes[end.code]);
};

const stop = new AbortController();
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  // Whoever asks twice does not want to wait: the handlers of `exit` still take the command along.
  process.on(signal, () => (stop.signal.aborted ? process.exit(1) : stop.abort()));
}
process.on('uncaughtException', (error) => {
  process.stderr.write(`${error.stack}\n`);
  finish({ code: 'agent_crashed', reason: error.stack ?? error.message });
});
// Nobody reads our output any more; the spool has every line of it.
process.stdout.on('error', (error) => {
  if (errorCode(error) !== 'EPIPE') throw error;
});

finish(
  await runAgent(config, {
    clock: systemClock,
    timing: defaultTiming,
    env: process.env,
    stop: stop.signal,
    print: (line) => process.stdout.write(`${line}\n`),
    atExit: (run) => process.on('exit', run),
  }),
);
