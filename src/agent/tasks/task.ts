/** What a task type is: a name in the catalogue and a function that works on the machine. */
import type { Clock } from '../../base/clock.ts';
import type { SignedTask } from '../../contract/agent/agent.ts';
import type { BootStage } from '../../contract/node.ts';
import type { Log } from '../log.ts';
import type { ProcessRow } from '../process/process-table.ts';
import type { ShellEnd } from '../process/shell.ts';
import type { KeptLine } from '../spool/spool-segments.ts';
import type { Fields } from '../state/shape.ts';

/** The machine, as far as tasks may reach it. */
export interface Machine {
  clock: Clock;
  dir: string;
  /** Ends the command and everything else of the instance, and keeps it down; what is still there after that. */
  stopCommand(grace_ms: number | null): Promise<ProcessRow[]>;
  /** Null when the pool has nothing to clean. */
  clean(signal: AbortSignal): Promise<ShellEnd> | null;
  /** Made for the workload alone; none where the machine is somebody else's. */
  workload_dirs: readonly string[];
  /** Ships all that was said while its tenant had the machine, and removes every trace of it. What was done, or why it was not. */
  forgetTenant(signal: AbortSignal): Promise<{ forgotten: string; last_log_seq: number } | { kept: string }>;
  /** Null when the pool has nothing to set up. */
  setUp(signal: AbortSignal): Promise<ShellEnd> | null;
  /** Everything of the instance that runs besides the agent. */
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
  /** The lease was lost, the task expired or the agent stops: end the work. */
  signal: AbortSignal;
}

export type TaskOutcome =
  | { status: 'succeeded'; result: Fields }
  | { status: 'failed'; error: { code: string; message: string } };

export type TaskType = (context: TaskContext) => Promise<TaskOutcome>;

export const succeeded = (result: Fields): TaskOutcome => ({ status: 'succeeded', result });
export const failed = (code: string, message: string): TaskOutcome => ({ status: 'failed', error: { code, message } });
