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
import type { Spool } from '../spool/spool.ts';
import type { AgentConfig } from '../state/config.ts';
import { errorText } from '../state/shape.ts';
import { agentDirectory, type StateFile } from '../state/state-file.ts';
import type { Timing } from '../timing.ts';
import { type Command, superviseCommand } from './command.ts';
import { type CommandRecord, commandDigest, commandRecords, ownerOf } from './command-record.ts';
import { endGroup, endProcesses } from './process-group.ts';
import { isRunning, listInstanceProcesses, type ProcessRow, readBootId, readProcess } from './process-table.ts';
import { readStarted } from './shim/run-files.ts';

export interface WorkloadParts {
  config: AgentConfig;
  clock: Clock;
  state: StateFile;
  stages: BootStages;
  report: SelfReport;
  facts: FactBox;
  log: Log;
  timing: Timing;
  spool: Spool;
  agent_program: readonly string[];
  env(): NodeJS.ProcessEnv;
}

export interface Workload {
  /**
   * Continues to supervise a command that an earlier agent of this instance started. Ends what
   * belongs to another instance, or runs with another configuration.
   */
  adopt(): Promise<void>;
  /**
   * Starts the command, unless it was adopted. Called after the registration, or at once if the
   * agent was registered before: then the workload must not depend on the control plane.
   */
  begin(): Promise<void>;
  /** Ends the command. A restarted agent starts the command again. */
  end(): Promise<void>;
  /** Lets the command run without this agent. Returns whether it runs. */
  leave(): Promise<boolean>;
  isRunning(): boolean;
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
  const records = commandRecords(agentDirectory(config.dir), clock, (error) =>
    log.warn('the record of the command could not be stored; trying again', { detail: errorText(error) }),
  );
  const cleanedMarker = join(config.dir, 'cleaned');
  const { private_key } = state.read();
  /** A machine that joined again still runs the command under the tag of its former instance. */
  const instances = () => [state.read().identity?.node_instance_id, records.read()?.node_instance_id];
  const processes = () => listInstanceProcesses(instances().filter((id) => typeof id === 'string'));
  /** The group id may have been reused, so only processes with a tag of the instance count. */
  const leftovers = () => {
    const group = records.group();
    return group === null ? [] : processes().filter((row) => row.group === group);
  };
  let endCommandStage: (() => void) | null = null;
  const wasStartedBefore = records.exists();

  const command: Command | null = config.command
    ? superviseCommand({
        ...parts,
        argv: config.command,
        records,
        leftovers,
        owner: ownerOf(private_key),
        command_digest: commandDigest(private_key, config),
        node_instance_id: () => state.read().identity?.node_instance_id ?? null,
        events: {
          ready() {
            endCommandStage?.();
            report.set('ready');
          },
          ended(ending, end) {
            const restarts = state.read().command_restarts + 1;
            state.note({ command_restarts: restarts });
            facts.addFact('command_ended', `the command ${ending} and is restarted`, { how: ending, ...end, restarts });
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

  const stop = async (grace_ms: number) => {
    await command?.stop(grace_ms);
    await command?.waitForOutputEnd();
  };

  /** Ends a run without reading its output, which may belong to a former instance. */
  const endForeignRun = async ({ run, shim, boot_id, group }: CommandRecord) => {
    const isShimRunning = boot_id === readBootId() && isRunning(shim);
    const shimRows = () =>
      [readProcess(shim.pid)].filter((row) => row !== null && row.start === shim.start) as ProcessRow[];
    if (isShimRunning) {
      // If the shim is just starting the command, ending the shim prevents the start.
      if (group === null) await endProcesses(shimRows(), 0, clock);
      const groupToEnd = group ?? readStarted(records.directoryOf(run))?.pid ?? null;
      if (groupToEnd !== null) await endGroup(groupToEnd, timing.stop_grace_ms, clock);
      await endProcesses(shimRows(), timing.stop_grace_ms, clock);
    }
    await endProcesses(leftovers(), timing.stop_grace_ms, clock);
    records.markOver();
  };

  return {
    async adopt() {
      const record = records.read();
      records.removeOthers(record?.run ?? null);
      if (record === null || record.is_over) {
        // The run is over, or it belongs to a killed agent of an earlier version, and nothing reads
        // its output.
        const rows = leftovers();
        await endProcesses(rows, timing.stop_grace_ms, clock);
        if (rows.length > 0) log.warn('ended processes that a killed agent left behind', { processes: rows.length });
        return;
      }
      const isOurs = record.owner === ownerOf(private_key);
      if (!command || !isOurs) {
        log.warn('ending the command of another instance or configuration', { pid: record.group });
        return endForeignRun(record);
      }
      command.adopt(record);
      if (record.command_digest !== commandDigest(private_key, config)) {
        log.info('the configuration of the command has changed; ending the running one');
        await stop(timing.stop_grace_ms);
      } else if (state.read().command_stopped) await stop(timing.stop_grace_ms);
    },
    async begin() {
      if (state.read().command_stopped) report.set('starting', releasedMessage);
      else start();
    },
    end: () => stop(timing.stop_grace_ms),
    async leave() {
      const wasRunning = command?.isRunning() ?? false;
      await command?.leave();
      return wasRunning;
    },
    isRunning: () => command?.isRunning() ?? false,
    async release(grace_ms) {
      const grace = grace_ms ?? timing.stop_grace_ms;
      if (!state.read().command_stopped) state.update({ command_stopped: true });
      await command?.stop(grace);
      const shims = command?.shimPids() ?? [];
      await endProcesses(
        processes().filter(({ pid }) => !shims.includes(pid)),
        grace,
        clock,
      );
      // Each shim ends after it has read the last line of the processes that were ended.
      await command?.waitForOutputEnd();
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
