/**
 * Stores results on disk: a task that comes again because its reply was lost is answered, not run
 * again.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync, statSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { TaskResult } from '../../contract/agent/agent.ts';
import { readJsonFile, writeAtomically } from '../state/durable-file.ts';
import { isFields } from '../state/shape.ts';

export interface TaskResults {
  given(task_id: string): TaskResult | null;
  keep(task_id: string, result: TaskResult): void;
  forgetAll(): void;
}

const max_kept = 64;

const isResult = (value: unknown): value is TaskResult =>
  isFields(value) && (value.status === 'succeeded' || value.status === 'failed');

export function openTaskResults(agent_directory: string): TaskResults {
  const directory = join(agent_directory, 'results');
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  // An id from outside never becomes a path.
  const pathOf = (task_id: string) => join(directory, `${createHash('sha256').update(task_id).digest('hex')}.json`);
  const dropOldest = () => {
    const kept = readdirSync(directory).map((name) => join(directory, name));
    if (kept.length <= max_kept) return;
    const byAge = kept.map((path) => ({ path, at: statSync(path).mtimeMs })).sort((a, b) => a.at - b.at);
    for (const { path } of byAge.slice(0, kept.length - max_kept)) unlinkSync(path);
  };
  return {
    given(task_id) {
      const value = readJsonFile(pathOf(task_id));
      return isResult(value) ? value : null;
    },
    keep(task_id, result) {
      writeAtomically(pathOf(task_id), JSON.stringify(result));
      dropOldest();
    },
    forgetAll() {
      for (const name of readdirSync(directory)) rmSync(join(directory, name), { recursive: true, force: true });
    },
  };
}
