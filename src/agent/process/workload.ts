/**
 * The command over the life of the node: when it runs, what the agent reports about it, and how a
 * release ends it.
 */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import type { BootStages } from '../life/boot-stages.ts';
import type { SelfReport } from '../life/report.ts';
import type { Log } from '../log.ts';
import type { FactBox } from '../spool/fact-box.ts';
import type { AgentConfig } from '../state/config.ts';
import { readJsonFile, writeAtomically } from '../state/durable-file.ts';
import { isFields } from '../state/shape.ts';
import { agentDirectory, type StateFile } from '../state/state-file.ts';
import type { Timing } from '../timing.ts';
import { type Command, superviseCommand } from './command.ts';
import { endProcesses } from './process-group.ts';
import { instanceProcesses, type ProcessRow } from './process-table.ts';

const recordPath = (agent_directory: string) => join(agent_directory, 'command.json');

const commandWasStarted = (agent_directory: string) => existsSync(recordPath(agent_directory));

function rememberCommand(agent_directory: string, pid: number): void {
  writeAtomically(recordPath(agent_directory), JSON.stringify({ group: pid }));
}

/**
 * Returns how many processes were found. Only tagged members count: the group id may have been
 * reused.
 */
async function endLeftover(
  agent_directory: string,
  node_instance_id: string,
  grace_ms: number,
  clock: Clock,
): Promise<number> {
  const record = readJsonFile(recordPath(agent_directory));
  if (!isFields(record)) return 0;
  const left = instanceProcesses(node_instance_id).filter(({ group }) => group === record.group);
  await endProcesses(left, grace_ms, clock);
  return left.length;
}

export interface WorkloadParts {
  config: AgentConfig;
  clock: Clock;
  state: StateFile;
  stages: BootStages;
  report: SelfReport;
  facts: FactBox;
  log: Log;
  timing: Timing;
  isCrowded(): boolean;
  env(): NodeJS.ProcessEnv;
}

export interface Workload {
  /**
   * Called once registered, or at once by an agent that was before: the workload waits for the
   * prerequisites, not for the control plane.
   */
  begin(): Promise<void>;
  /** Ends the command; a restarted agent starts it again. */
  end(): Promise<void>;
  /** Ends everything of the instance and keeps it down. Returns what is left. */
  release(grace_ms: number | null): Promise<ProcessRow[]>;
  /** Restarts the command if the node was released, cleaned and is ready again. */
  resumeIfReused(node_status: string): void;
  processes(): ProcessRow[];
  kill(): void;
}

/** From the first start of the command until it accepts work. */
const commandStage = 'command';
const releasedMessage = 'the command was stopped by a release';

export function workload(parts: WorkloadParts): Workload {
  const { config, clock, state, stages, report, facts, log, timing } = parts;
  const directory = agentDirectory(config.dir);
  const cleaned = join(config.dir, 'cleaned');
  const instance = () => state.read().identity?.node_instance_id ?? null;
  const processes = () => {
    const id = instance();
    return id === null ? [] : instanceProcesses(id);
  };
  let firstReady: (() => void) | null = null;
  const startedBefore = commandWasStarted(directory);

  const command: Command | null = config.command
    ? superviseCommand({
        ...parts,
        argv: config.command,
        cwd: config.work_dir,
        events: {
          launched: (pid) => rememberCommand(directory, pid),
          ready() {
            firstReady?.();
            report.set('ready');
          },
          ended(how) {
            const restarts = state.read().command_restarts + 1;
            state.note({ command_restarts: restarts });
            facts.happened('command_ended', `the command ${how} and is started again`, { how, restarts });
          },
          crashLooping: (message) => report.set('degraded', message),
        },
      })
    : null;

  const start = () => {
    if (!command) return report.set('ready');
    command.start();
    if (firstReady || startedBefore) return;
    // Not awaited: the server judges a command that never gets ready, by its own deadline.
    stages.run(commandStage, () => {
      return new Promise<void>((resolve) => {
        firstReady = resolve;
      });
    });
  };

  return {
    async begin() {
      const id = instance();
      const left = id === null ? 0 : await endLeftover(directory, id, timing.stop_grace_ms, clock);
      if (left > 0) log.warn('ended what a killed agent had left running', { processes: left });
      if (state.read().command_stopped) report.set('starting', releasedMessage);
      else start();
    },
    async end() {
      await command?.stop(timing.stop_grace_ms);
    },
    async release(grace_ms) {
      const grace = grace_ms ?? timing.stop_grace_ms;
      if (!state.read().command_stopped) state.update({ command_stopped: true });
      await command?.stop(grace);
      await endProcesses(processes(), grace, clock);
      await command?.outputEnds();
      report.set('starting', releasedMessage);
      return processes();
    },
    resumeIfReused(node_status) {
      if (report.isHeld() || node_status !== 'ready' || !state.read().command_stopped || !existsSync(cleaned)) return;
      rmSync(cleaned);
      state.update({ command_stopped: false });
      log.info('the node is free again; the command is started');
      start();
    },
    processes,
    kill: () => command?.kill(),
  };
}
