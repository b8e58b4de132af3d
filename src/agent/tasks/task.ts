/** The interface of a task type: a function that works on the machine and returns an outcome. */
import type { Clock } from '../../base/clock.ts';
import type { SignedTask } from '../../contract/agent/agent.ts';
import type { BootStage } from '../../contract/node.ts';
import type { Log } from '../log.ts';
import type { ProcessRow } from '../process/process-table.ts';
import type { ShellEnd } from '../process/shell.ts';
import type { SpooledLine } from '../spool/spool-segments.ts';
import type { Fields } from '../state/shape.ts';

/** The parts of the machine that tasks may use. */
export interface Machine {
  clock: Clock;
  dir: string;
  /**
   * Ends all processes of the instance and keeps the command stopped. Returns the processes that
   * survived.
   */
  stopCommand(grace_ms: number | null): Promise<ProcessRow[]>;
  /** Null if the pool has nothing to clean. */
  clean(signal: AbortSignal): Promise<ShellEnd> | null;
  /** Directories created only for the workload; empty if Slipway did not create the machine. */
  workload_dirs: readonly string[];
  /**
   * Ships all log lines and facts of the tenant and removes its traces. Returns what was done, or
   * why it failed.
   */
  forgetTenant(signal: AbortSignal): Promise<{ finding: string; last_log_seq: number } | { failure: string }>;
  /** Stores which release was proven clean last. A restored server may not have it on record. */
  recordRelease(workflow_id: string | null): void;
  lastRelease(): string | null;
  /** Null if the pool has nothing to set up. */
  setUp(signal: AbortSignal): Promise<ShellEnd> | null;
  /** All processes of the instance except the agent. */
  processes(): ProcessRow[];
  /** A command line without the text of the pool's scripts. */
  hideScripts(commandLine: string): string;
  bootStages(): BootStage[];
  lastLines(count: number): SpooledLine[];
}

export interface TaskContext {
  task: SignedTask;
  machine: Machine;
  log: Log;
  /** Aborted when the lease is lost, the task expires or the agent stops: end the work. */
  signal: AbortSignal;
}

export type TaskOutcome =
  | { status: 'succeeded'; result: Fields }
  | { status: 'failed'; error: { code: string; message: string } };

export type TaskType = (context: TaskContext) => Promise<TaskOutcome>;

export const succeeded = (result: Fields): TaskOutcome => ({ status: 'succeeded', result });
export const failed = (code: string, message: string): TaskOutcome => ({ status: 'failed', error: { code, message } });
