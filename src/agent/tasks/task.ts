/**
 * The interface of a task type: a name in the catalogue, and a function that works on the machine.
 */
import type { Clock } from '../../base/clock.ts';
import type { SignedTask } from '../../contract/agent/agent.ts';
import type { BootStage } from '../../contract/node.ts';
import type { Log } from '../log.ts';
import type { ProcessRow } from '../process/process-table.ts';
import type { ShellEnd } from '../process/shell.ts';
import type { KeptLine } from '../spool/spool-segments.ts';
import type { Fields } from '../state/shape.ts';

/** The machine, as far as tasks may use it. */
export interface Machine {
  clock: Clock;
  dir: string;
  /**
   * Ends the command and everything else of the instance, and keeps it down. Returns what is left.
   */
  stopCommand(grace_ms: number | null): Promise<ProcessRow[]>;
  /** Null if the pool has nothing to clean. */
  clean(signal: AbortSignal): Promise<ShellEnd> | null;
  /** Made for the workload alone; empty if the machine is not ours. */
  workload_dirs: readonly string[];
  /**
   * Ships everything logged under the tenant and removes its traces. Returns what was done, or why
   * not.
   */
  forgetTenant(signal: AbortSignal): Promise<{ forgotten: string; last_log_seq: number } | { kept: string }>;
  /** Null if the pool has nothing to set up. */
  setUp(signal: AbortSignal): Promise<ShellEnd> | null;
  /** All processes of the instance except the agent. */
  processes(): ProcessRow[];
  /** A command line without the text of the pool's scripts. */
  hideScripts(commandLine: string): string;
  bootStages(): BootStage[];
  lastLines(count: number): KeptLine[];
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
