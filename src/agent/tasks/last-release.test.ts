/** A ping names the last release that was proven clean, also after the agent restarts. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import type { SignedTask } from '../../contract/agent/agent.ts';
import type { AgentConfig } from '../state/config.ts';
import { openState } from '../state/state-file.ts';
import { taskCatalogue } from './catalogue.ts';
import type { Machine, TaskContext } from './task.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'slipway-last-release-'));
});
afterEach(() => rm(dir, { recursive: true }));

/** Runs a task as an agent that just started in the directory. */
function run(type: string, task: Partial<SignedTask> = {}, parts: Partial<Machine> = {}) {
  const state = openState({ dir, node_instance_id: null, enrollment_token: null } as AgentConfig);
  const machine: Partial<Machine> = {
    clock: systemClock,
    dir,
    stopCommand: async () => [],
    clean: () => null,
    processes: () => [],
    recordRelease: (workflow_id) => state.update({ last_release: workflow_id }),
    lastRelease: () => state.read().last_release,
    ...parts,
  };
  return taskCatalogue[type]?.({ task, machine, signal: AbortSignal.timeout(10_000) } as unknown as TaskContext);
}

const clean = (workflow_id: string, parts?: Partial<Machine>) =>
  run('release.clean', { workflow_id, params: { nonce: 'n' } }, parts);
const lastRelease = async () => {
  const outcome = await run('ping');
  return outcome?.status === 'succeeded' ? outcome.result.last_release : outcome;
};

test('a machine that was never released names none', async () => {
  expect(await lastRelease()).toBeNull();
});

test('names the last release that was proven clean, and none that failed', async () => {
  await clean('wf_1');
  expect(await lastRelease()).toBe('wf_1');
  const running = { processes: () => [{ pid: 1 }] as never };
  expect(await clean('wf_2', running)).toMatchObject({ status: 'failed' });
  expect(await lastRelease()).toBe('wf_1');
  await clean('wf_3');
  expect(await lastRelease()).toBe('wf_3');
});
