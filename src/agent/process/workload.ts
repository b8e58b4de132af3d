/**
 * Runs the pool's command over the life of the node: starts it, reports its state, ends it at a
 * release, and starts it again if the node is reused.
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

function recordCommand(agent_directory: string, pid: number): void {
  writeAtomically(recordPath(agent_directory), JSON.stringify({ group: pid }));
}

/**
 * Ends the processes that a killed agent left behind, and returns their number. The group id may
 * have been reused, so only processes with the tag of the instance are ended.
 */
async function endLeftoverProcesses(
  agent_directory: string,
  node_instance_id: string,
  grace_ms: number,
  clock: Clock,
): Promise<number> {
  const record = readJsonFile(recordPath(agent_directory));
  if (!isFields(record)) return 0;
  const leftovers = instanceProcesses(node_instance_id).filter(({ group }) => group === record.group);
  await endProcesses(leftovers, grace_ms, clock);
  return leftovers.length;
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
   * Starts the command. Called after the registration, or at once if the agent was registered
   * before: then the workload must not depend on the control plane.
   */
  begin(): Promise<void>;
  /** Ends the command. A restarted agent starts the command again. */
  end(): Promise<void>;
  /** Ends all processes of the instance for good. Returns the processes that still run. */
  release(grace_ms: number | null): Promise<ProcessRow[]>;
  /** Starts the command again if the node was released and cleaned, and is ready again. */
  resumeIfReused(node_status: string): void;
  processes(): ProcessRow[];
  kill(): void;
}

/** The boot stage from the first start of the command until the command accepts work. */
const commandStage = 'command';
const releasedMessage = 'the command was stopped by a release';

export function workload(parts: WorkloadParts): Workload {
  const { config, clock, state, stages, report, facts, log, timing } = parts;
  const directory = agentDirectory(config.dir);
  const cleanedMarker = join(config.dir, 'cleaned');
  const instance = () => state.read().identity?.node_instance_id ?? null;
  const processes = () => {
    const id = instance();
    return id === null ? [] : instanceProcesses(id);
  };
  let endCommandStage: (() => void) | null = null;
  const wasStartedBefore = commandWasStarted(directory);

  const command: Command | null = config.command
    ? superviseCommand({
        ...parts,
        argv: config.command,
        cwd: config.work_dir,
        events: {
          launched: (pid) => recordCommand(directory, pid),
          ready() {
            endCommandStage?.();
            report.set('ready');
          },
          ended(how) {
            const restarts = state.read().command_restarts + 1;
            state.note({ command_restarts: restarts });
            facts.addFact('command_ended', `the command ${how} and is restarted`, { how, restarts });
          },
          crashLooping: (message) => report.set('degraded', message),
        },
      })
    : null;

  const start = () => {
    if (!command) return report.set('ready');
    command.start();
    if (endCommandStage || wasStartedBefore) return;
    // Not awaited, because the command may never become ready. The server's deadline covers that.
    stages.run(commandStage, () => {
      return new Promise<void>((resolve) => {
        endCommandStage = resolve;
      });
    });
  };

  return {
    async begin() {
      const id = instance();
      const leftoverCount = id === null ? 0 : await endLeftoverProcesses(directory, id, timing.stop_grace_ms, clock);
      if (leftoverCount > 0) log.warn('ended processes that a killed agent left behind', { processes: leftoverCount });
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
      if (
        report.isStatusWithheld() ||
        node_status !== 'ready' ||
        !state.read().command_stopped ||
        !existsSync(cleanedMarker)
      )
        return;
      rmSync(cleanedMarker);
      state.update({ command_stopped: false });
      log.info('the node is ready again; starting the command');
      start();
    },
    processes,
    kill: () => command?.kill(),
  };
}
