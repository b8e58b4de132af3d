/** The agent's life: boot, register, then beat, work, ship and supervise, all at once, until something ends it. */
import { setMaxListeners } from 'node:events';
import { join } from 'node:path';
import { type Clock, pause } from '../base/clock.ts';
import { boot } from './boot.ts';
import { bootShipper, bootStages } from './boot-stages.ts';
import type { CallFailure } from './call-failure.ts';
import { childEnvironment } from './child-environment.ts';
import { claims } from './claims.ts';
import type { AgentConfig } from './config.ts';
import { controlPlane } from './control-plane.ts';
import type { AgentEnd } from './exit.ts';
import { openFactBox } from './fact-box.ts';
import { factShipper } from './fact-shipper.ts';
import { heartbeatLoop } from './heartbeat.ts';
import { agentLog } from './log.ts';
import { type LogShipper, logShipper } from './log-shipper.ts';
import { endProcesses } from './process-group.ts';
import { register } from './register.ts';
import { serverTime } from './server-time.ts';
import { runShell } from './shell.ts';
import { openSpool } from './spool.ts';
import { agentDirectory, openState } from './state-file.ts';
import { taskLoop } from './task-loop.ts';
import { openTaskResults } from './task-results.ts';
import type { Machine } from './tasks/task.ts';
import type { Timing } from './timing.ts';
import { transport } from './transport.ts';
import { agentVersion } from './version.ts';
import { workload } from './workload.ts';

const most_listeners = 40;

export interface AgentSurroundings {
  clock: Clock;
  timing: Timing;
  env: NodeJS.ProcessEnv;
  /** Fires when the agent is told to stop. */
  stop: AbortSignal;
  print(line: string): void;
  /** Called when the process is about to go, whatever the reason; nothing in it may wait. */
  atExit(run: () => void): void;
}

export async function runAgent(config: AgentConfig, surroundings: AgentSurroundings): Promise<AgentEnd> {
  const { clock, timing, env, stop, print } = surroundings;
  const state = openState(config);
  const directory = agentDirectory(config.dir);
  const spool = openSpool(join(directory, 'spool'), clock);
  const facts = openFactBox(directory, clock);
  const time = serverTime(clock);
  const known = () => state.read().identity ?? config;
  const ids = () => {
    const { node_id, node_instance_id } = known();
    return { node_id, node_instance_id, correlation_id: config.correlation_id, workflow_id: config.workflow_id };
  };
  const log = agentLog({ clock, spool, ids, print });

  const life = new AbortController();
  // Every loop and every call under way listens; more than this would be a leak, and Node then says so.
  setMaxListeners(most_listeners, life.signal);
  let ending: AgentEnd | null = null;
  const end = (how: AgentEnd) => {
    ending ??= how;
    life.abort();
  };
  const stopped = () => end({ code: 'stopped', reason: 'told to stop' });
  stop.addEventListener('abort', stopped, { once: true });
  if (stop.aborted) stopped();

  const http = transport(config.server_url, clock, time);
  const doubt = credentialDoubt(clock, timing.credential_doubt_ms);
  const server = controlPlane({
    transport: http,
    credential: () => state.read().identity?.credential ?? null,
    correlation_id: () => config.correlation_id,
    timeout_ms: timing.call_timeout_ms,
    onAnswer: doubt.dispelled,
    onFailure(failure) {
      facts.callFailed(failure);
      if (failure.call === 'agent-register') return;
      if (failure.code === 'instance_fenced') end({ code: 'instance_fenced', reason: failure.detail });
      if (doubt.confirmedBy(failure)) credentialLost(failure);
    },
  });

  const stages = bootStages(clock, state);
  const said = claims(stages.current);
  const shell = {
    clock,
    log,
    isCrowded: spool.isCrowded,
    cwd: config.work_dir,
    get env() {
      return childEnvironment(config, known(), env);
    },
  };
  const work = workload({
    config,
    clock,
    state,
    stages,
    claims: said,
    facts,
    log,
    timing,
    isCrowded: spool.isCrowded,
    env,
  });
  surroundings.atExit(work.kill);
  const signal = life.signal;
  const registering = () => register({ config, clock, time, server, state, log, timing, signal });

  const credentialLost = ({ detail }: CallFailure) => {
    if (!config.join_token) return end({ code: 'credential_unknown', reason: detail });
    registering().then(
      (refused) => refused && end(refused),
      (error) => end(crashed(error)),
    );
  };

  const machine: Machine = {
    clock,
    dir: config.dir,
    stopCommand: work.release,
    clean: (until) => (config.clean ? runShell(shell, { script: config.clean, stream: 'clean', signal: until }) : null),
    processes: work.processes,
    bootStages: stages.all,
    lastLines: spool.tail,
  };

  let shipper: LogShipper | null = null;
  const live = async () => {
    const resumed = state.read().identity !== null;
    log.info('agent starts', { version: agentVersion, resumed });
    const notBooted = await boot({ config, clock, state, stages, shell, log, timing, signal });
    if (notBooted) return end(notBooted);
    if (resumed && !signal.aborted) await work.begin();
    const notRegistered = await registering();
    if (notRegistered) return end(notRegistered);
    if (signal.aborted) return;
    if (!resumed) await work.begin();
    const loop = { clock, server, log, timing, signal };
    shipper = logShipper({ ...loop, spool });
    const factLoop = factShipper({ ...loop, facts });
    const bootLoop = bootShipper({ ...loop, stages });
    const beats = heartbeatLoop({
      ...loop,
      claims: said,
      state,
      onReply({ node_status, tasks_waiting }) {
        work.resumeIfReused(node_status);
        if (tasks_waiting > 0) tasks.wake();
        if (!facts.isEmpty()) factLoop.wake();
      },
    });
    const results = openTaskResults(directory);
    const { beat: refreshKeys } = beats;
    const tasks = taskLoop({ ...loop, time, state, results, machine, refreshKeys, onActive: said.activeTasks });
    await Promise.all([beats.done, tasks.done, shipper.done, factLoop.done, bootLoop.done]);
  };

  /** Each part has its bound, so that whoever told us to stop can rely on an end. */
  const farewell = async ({ code, reason }: AgentEnd) => {
    log.info('agent ends', { code, reason });
    const heard = state.read().identity !== null && code === 'stopped' && shipper !== null;
    said.claim('stopping');
    const goodbye = heard
      ? within(clock, timing.farewell_ms, (until) => server.heartbeat(said.current(), until))
      : null;
    await Promise.all([goodbye, work.end()]);
    // Nothing of a fenced instance may go on working beside its successor.
    if (code === 'instance_fenced') await endProcesses(work.processes(), timing.stop_grace_ms, clock);
    const last = shipper;
    if (last && code === 'stopped') await within(clock, timing.farewell_ms, last.flush);
    http.close();
    spool.close();
  };

  await live().catch((error) => end(crashed(error)));
  const how = ending ?? crashed(new Error('the agent ended without a reason'));
  await farewell(how);
  return how;
}

function crashed(error: unknown): AgentEnd {
  return { code: 'agent_crashed', reason: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

async function within(clock: Clock, ms: number, run: (until: AbortSignal) => Promise<unknown>): Promise<void> {
  const over = new AbortController();
  const done = run(over.signal).finally(() => over.abort());
  await pause(clock, ms, over.signal);
  over.abort();
  await done;
}

/** One `credential_unknown` may come from a server whose store is being restored; the same word for a while may not. */
function credentialDoubt(clock: Clock, doubt_ms: number) {
  let since: number | null = null;
  return {
    dispelled() {
      since = null;
    },
    confirmedBy({ code }: CallFailure): boolean {
      if (code !== 'credential_unknown') return false;
      since ??= clock.monotonicMs();
      if (clock.monotonicMs() - since < doubt_ms) return false;
      since = null;
      return true;
    },
  };
}
