/** Everything that a registered agent does at once, until its life ends. */
import { mkdirSync } from 'node:fs';
import type { Tracer } from '../base/trace.ts';
import type { AgentParts } from './agent-parts.ts';
import { bootShipper } from './boot-stages.ts';
import type { ControlPlane } from './control-plane.ts';
import { factShipper } from './fact-shipper.ts';
import { tenantForgetting } from './former-tenant.ts';
import { heartbeatLoop } from './heartbeat.ts';
import { type LogShipper, logShipper } from './log-shipper.ts';
import { prerequisiteShipper } from './prerequisite-shipper.ts';
import { runShell, type ShellParts } from './shell.ts';
import { agentDirectory } from './state-file.ts';
import { type TaskLoopParts, taskLoop } from './task-loop.ts';
import { openTaskResults } from './task-results.ts';
import { spansOfTask } from './task-span.ts';
import type { Machine } from './tasks/task.ts';

export interface Loops {
  shipper: LogShipper;
  done: Promise<unknown>;
}

export function startLoops(parts: AgentParts, server: ControlPlane, signal: AbortSignal, tracer: Tracer | null): Loops {
  const { config, facts, work, claims, time } = parts;
  const shared = { ...parts, server, signal };
  const shipper = logShipper(shared);
  const factLoop = factShipper(shared);
  const bootLoop = bootShipper(shared);
  const prerequisiteLoop = prerequisiteShipper(shared);
  const beats = heartbeatLoop({
    ...shared,
    onReply({ node_status, tasks_waiting }) {
      work.resumeIfReused(node_status);
      if (tasks_waiting > 0) tasks.wake();
      if (!facts.isEmpty()) factLoop.wake();
    },
  });
  const results = openTaskResults(agentDirectory(config.dir));
  const { beat: refreshKeys } = beats;
  const forgetTenant = tenantForgetting({ ...parts, results, loops: [shipper, factLoop] });
  const machine = { ...machineOf(parts), forgetTenant };
  const onDone: TaskLoopParts['onDone'] = (task, outcome, start_ms) =>
    tracer?.record(spansOfTask(task, outcome, start_ms, time.nowMs()));
  const tasks = taskLoop({ ...shared, results, machine, refreshKeys, onActive: claims.activeTasks, onDone });
  const others = [factLoop.done, bootLoop.done, prerequisiteLoop.done];
  return { shipper, done: Promise.all([beats.done, tasks.done, shipper.done, ...others]) };
}

function machineOf({ config, clock, work, shell, stages, spool }: AgentParts): Omit<Machine, 'forgetTenant'> {
  const { clean, setup, workload_dirs } = config;
  return {
    clock,
    dir: config.dir,
    stopCommand: work.release,
    clean: (signal) => (clean ? run(shell, 'clean', clean, signal) : null),
    workload_dirs,
    setUp: (signal) => (setup ? run(shell, 'setup', setup, signal) : null),
    processes: work.processes,
    bootStages: stages.all,
    lastLines: spool.tail,
  };
}

async function run(shell: ShellParts, stream: 'setup' | 'clean', script: string, signal: AbortSignal) {
  // The workload may have removed even the place where it ran.
  mkdirSync(shell.cwd, { recursive: true, mode: 0o700 });
  return { ...(await runShell(shell, { script, stream, signal })), script };
}
