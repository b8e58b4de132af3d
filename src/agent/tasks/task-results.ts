/**
 * Stores task results on disk. If the server delivers a task again because a reply was lost, the
 * agent sends the stored result instead of running the task twice.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync, statSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { TaskResult } from '../../contract/agent/agent.ts';
import { readJsonFile, writeAtomically } from '../state/durable-file.ts';
import { isFields } from '../state/shape.ts';

export interface TaskResults {
  read(task_id: string): TaskResult | null;
  store(task_id: string, result: TaskResult): void;
  forgetAll(): void;
}

const max_results = 64;

const isResult = (value: unknown): value is TaskResult =>
  isFields(value) && (value.status === 'succeeded' || value.status === 'failed');

export function openTaskResults(agent_directory: string): TaskResults {
  const directory = join(agent_directory, 'results');
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  // The server chooses the id, so it is hashed and never used as a path.
  const pathOf = (task_id: string) => join(directory, `${createHash('sha256').update(task_id).digest('hex')}.json`);
  const dropOldest = () => {
    const paths = readdirSync(directory).map((name) => join(directory, name));
    if (paths.length <= max_results) return;
    const byAge = paths
      .map((path) => ({ path, modified_ms: statSync(path).mtimeMs }))
      .sort((a, b) => a.modified_ms - b.modified_ms);
    for (const { path } of byAge.slice(0, paths.length - max_results)) unlinkSync(path);
  };
  return {
    read(task_id) {
      const value = readJsonFile(pathOf(task_id));
      return isResult(value) ? value : null;
    },
    store(task_id, result) {
      writeAtomically(pathOf(task_id), JSON.stringify(result));
      dropOldest();
    },
    forgetAll() {
      for (const name of readdirSync(directory)) rmSync(join(directory, name), { recursive: true, force: true });
    },
  };
}
