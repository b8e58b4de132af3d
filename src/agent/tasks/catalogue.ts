/**
 * Every type of task that this agent runs. Any other is refused, even if its signature is valid.
 */
import { collectDiagnostics } from './diagnostics.ts';
import { ping } from './ping.ts';
import { releaseClean } from './release-clean.ts';
import { releaseStop } from './release-stop.ts';
import type { TaskType } from './task.ts';

export const taskCatalogue: Readonly<Record<string, TaskType>> = {
  ping,
  'release.stop': releaseStop,
  'release.clean': releaseClean,
  'release.freeze': collectDiagnostics,
  'diagnostics.collect': collectDiagnostics,
};

/** Own entries only: `constructor` is not a type of task. */
export const taskTypeOf = (type: string): TaskType | null =>
  Object.hasOwn(taskCatalogue, type) ? (taskCatalogue[type] ?? null) : null;
