/** Starts the loops that a registered agent runs concurrently until it stops. */
import { mkdirSync } from 'node:fs';
import type { Clock } from '../../base/clock.ts';
import { createScriptHider } from '../../base/files/pool-scripts.ts';
import { newSpanId, parseTraceparent, type Span, type Tracer } from '../../base/telemetry/trace.ts';
import type { SignedTask } from '../../contract/agent/agent.ts';
import { isTransient } from '../connection/call-failure.ts';
import type { ControlPlane, ControlPlaneParts } from '../connection/control-plane.ts';
import { heartbeatLoop } from '../connection/heartbeat.ts';
import { keepStream, type Stream } from '../connection/stream.ts';
import type { Log } from '../log.ts';
import { listRequired, prerequisiteShipper } from '../prerequisites/prerequisites.ts';
import { runShell, type ShellParts } from '../process/shell.ts';
import type { FactBox } from '../spool/fact-box.ts';
import { type LogShipper, logShipper } from '../spool/log-shipper.ts';
import { type ShipLoop, shipLoop } from '../spool/ship-loop.ts';
import { agentDirectory } from '../state/state-file.ts';
import { createTenantForgetter } from '../tasks/forget-tenant.ts';
import type { Machine, TaskOutcome } from '../tasks/task.ts';
import { taskKeyLoop } from '../tasks/task-keys.ts';
import { type TaskLoopParts, taskLoop } from '../tasks/task-loop.ts';
import { openTaskResults } from '../tasks/task-results.ts';
import type { Timing } from '../timing.ts';
import type { AgentParts } from './agent-parts.ts';
import { bootShipper } from './boot-stages.ts';

export interface Loops {
  shipper: LogShipper;
  done: Promise<unknown>;
}

export interface LoopParts extends AgentParts, Pick<ControlPlaneParts, 'onAnswer' | 'onFailure' | 'waitForTurn'> {
  server: ControlPlane;
  signal: AbortSignal;
  tracer: Tracer | null;
}

/** Returns null if the configuration asks for no stream. */
function openStream(parts: LoopParts, beatWithin: (seconds: number) => void): Stream | null {
  const { config, state, server } = parts;
  if (!config.stream) return null;
  const server_urls = [config.server_url, ...config.other_server_urls] as const;
  const credential = () => state.read().identity?.credential ?? null;
  const events = { onInterval: beatWithin, onOpen: () => beatWithin(0) };
  return keepStream({ ...parts, ...events, server_urls, ca: config.ca, credential }, server);
}

export function startLoops(parts: LoopParts): Loops {
  const { config, facts, work, report, time, tracer } = parts;
  const stream = openStream(parts, (seconds) => beats.beatWithin(seconds));
  const shared = { ...parts, server: stream?.server ?? parts.server };
  const shipper = logShipper(shared);
  const factLoop = factShipper(shared);
  const bootLoop = bootShipper(shared);
  const prerequisiteLoop = prerequisiteShipper(shared);
  const beats = heartbeatLoop({
    ...shared,
    onReply({ node_status, tasks_waiting }) {
      work.resumeIfReused(node_status);
      tasks.onBeatAnswered(tasks_waiting);
      if (!facts.isEmpty()) factLoop.wake();
    },
  });
  const results = openTaskResults(agentDirectory(config.dir));
  const keys = taskKeyLoop(shared);
  // A server that names no interval sends new keys only with heartbeat replies.
  const refreshKeys = () => (parts.state.read().task_key_refresh_seconds === null ? beats.beat() : keys.refresh());
  const forgetTenant = createTenantForgetter({ ...parts, results, loops: [shipper, factLoop] });
  const machine = { ...createMachine(parts), forgetTenant };
  const onDone: TaskLoopParts['onDone'] = (task, outcome, start_ms) =>
    tracer?.record(spansOfTask(task, outcome, start_ms, time.nowMs()));
  const tasks = taskLoop({ ...shared, results, machine, refreshKeys, onActive: report.setActiveTasks, onDone });
  const otherLoops = [keys.done, factLoop.done, bootLoop.done, prerequisiteLoop.done, stream?.done];
  return { shipper, done: Promise.all([beats.done, tasks.done, shipper.done, ...otherLoops]) };
}

function createMachine({
  config,
  clock,
  work,
  shell,
  stages,
  spool,
  state,
}: AgentParts): Omit<Machine, 'forgetTenant'> {
  const { clean, setup, command, workload_dirs } = config;
  return {
    clock,
    dir: config.dir,
    stopCommand: work.release,
    clean: (signal) => (clean ? runScript(shell, 'clean', clean, signal) : null),
    workload_dirs,
    setUp: (signal) => (setup ? runScript(shell, 'setup', setup, signal) : null),
    processes: work.processes,
    hideScripts: (commandLine) =>
      createScriptHider([
        setup,
        clean,
        command?.slice(1).join(' '),
        ...listRequired(config, state).map(({ check }) => check),
      ])(commandLine),
    bootStages: stages.all,
    lastLines: spool.tail,
    recordRelease: (workflow_id) => state.update({ last_release: workflow_id }),
    lastRelease: () => state.read().last_release,
  };
}

async function runScript(shell: ShellParts, stream: 'setup' | 'clean', script: string, signal: AbortSignal) {
  // The workload may have removed its own working directory.
  mkdirSync(shell.cwd, { recursive: true, mode: 0o700 });
  return runShell(shell, { script, stream, signal });
}

/**
 * Returns the span of a task, with times by the server's clock, as a child of the span that
 * requested the task. Returns an empty list if the task has no trace or the trace is not sampled.
 */
function spansOfTask(task: SignedTask, outcome: TaskOutcome, start_ms: number, end_ms: number): Span[] {
  const parent = parseTraceparent(task.traceparent);
  if (!parent?.sampled) return [];
  const { task_id, node_id, node_instance_id, correlation_id, allocation_id, workflow_id } = task;
  return [
    {
      trace_id: parent.trace_id,
      span_id: newSpanId(),
      parent_span_id: parent.span_id,
      name: `agent ${task.type}`,
      kind: 'internal',
      start_ms,
      end_ms: Math.max(start_ms, end_ms),
      attributes: { task_id, node_id, node_instance_id, correlation_id, allocation_id, workflow_id },
      error: outcome.status === 'failed' ? `${outcome.error.code}: ${outcome.error.message}` : null,
    },
  ];
}

interface FactShipperParts {
  clock: Clock;
  facts: FactBox;
  server: ControlPlane;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
}

const max_facts_per_call = 50;

/** Sends the stored facts as soon as the control plane can be reached. */
function factShipper({ clock, facts, server, log, timing, signal }: FactShipperParts): ShipLoop {
  return shipLoop({
    clock,
    signal,
    batch_ms: timing.log_batch_ms,
    retry: timing.ship_retry,
    async ship() {
      if (facts.isEmpty()) return 'empty';
      const { facts: batch, markSent } = facts.take(max_facts_per_call);
      const answer = await server.evidence(batch, signal);
      if (answer.ok) {
        markSent();
        return 'more';
      }
      if (answer.failure.code === 'invalid_request' && !isTransient(answer.failure)) {
        log.error('the server refuses these facts; they remain only in the log', { facts: batch });
        markSent();
      }
      return answer.failure;
    },
  });
}
