/**
 * Fetches tasks one at a time by a long poll: checks each, runs it, and sends its result until the
 * server accepts it.
 */
import { backoff } from '../../base/backoff.ts';
import { type Clock, pause } from '../../base/clock.ts';
import type { SignedTask, TaskResult } from '../../contract/agent/agent.ts';
import { describeFailure, isTransient } from '../connection/call-failure.ts';
import type { ControlPlane } from '../connection/control-plane.ts';
import { signed } from '../connection/keys.ts';
import type { ServerTime } from '../connection/server-time.ts';
import { waker } from '../life/waker.ts';
import type { Log } from '../log.ts';
import { errorText } from '../state/shape.ts';
import type { Identity, StateFile } from '../state/state-file.ts';
import type { Timing } from '../timing.ts';
import { taskTypeOf } from './catalogue.ts';
import { failed, type Machine, type TaskOutcome } from './task.ts';
import { type Refusal, refusalOf } from './task-check.ts';
import type { TaskResults } from './task-results.ts';

interface LeaseParts {
  clock: Clock;
  time: ServerTime;
  server: ControlPlane;
  log: Log;
  signal: AbortSignal;
}

interface Lease {
  /** Aborted when the work should end: the lease is lost, the task expired, or the agent stops. */
  lost: AbortSignal;
  /** The task has expired; its outcome is still reported. */
  expired(): boolean;
  end(): void;
}

/** More than one renewal per lease, so that one lost call does not lose it. */
const renewals_per_lease = 3;
const min_renewal_ms = 100;

/** Renews the lease of a running task, and aborts the work if the lease is lost. */
function holdLease({ clock, time, server, log, signal }: LeaseParts, task: SignedTask): Lease {
  const lost = new AbortController();
  const over = new AbortController();
  let expired = false;
  const lose = () => lost.abort();
  signal.addEventListener('abort', lose, { once: true });
  const cancel = clock.after(Date.parse(task.expires_at) - time.nowMs(), () => {
    expired = true;
    lose();
  });
  const renew = async () => {
    let lease_seconds = task.lease_seconds;
    while (true) {
      await pause(clock, Math.max(min_renewal_ms, (lease_seconds * 1000) / renewals_per_lease), over.signal);
      if (over.signal.aborted || lost.signal.aborted) return;
      const answer = await server.progress(task, `${task.type} is running`, over.signal);
      if (answer.ok) lease_seconds = answer.body.lease_seconds;
      else if (!isTransient(answer.failure) && !over.signal.aborted) {
        log.warn('the lease is lost; ending the work', { failure: describeFailure(answer.failure) });
        return lose();
      }
    }
  };
  renew();
  return {
    lost: lost.signal,
    expired: () => expired,
    end() {
      signal.removeEventListener('abort', lose);
      cancel();
      over.abort();
    },
  };
}

export interface TaskLoopParts {
  clock: Clock;
  time: ServerTime;
  server: ControlPlane;
  state: StateFile;
  results: TaskResults;
  machine: Machine;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
  /** Fetches the server's current keys. */
  refreshKeys(): Promise<unknown>;
  onActive(count: number): void;
  onDone(task: SignedTask, outcome: TaskOutcome, start_ms: number): void;
}

export interface TaskLoop {
  /** Call after each answered beat. Skips the retry pause if tasks are waiting. */
  onBeatAnswered(tasks_waiting: number): void;
  done: Promise<void>;
}

/**
 * Pause after an empty answer, so that a server that is shutting down is not polled in a tight
 * loop.
 */
const min_poll_ms = 1_000;

export function taskLoop(parts: TaskLoopParts): TaskLoop {
  const { clock, server, timing, signal } = parts;
  const rest = waker(clock, signal);
  let poll: AbortController | null = null;
  let interruptionsBefore = 0;
  /**
   * The server answers a poll as soon as a task is queued, so a poll that is open while tasks wait
   * is slow or lost. If another call failed since, assume that it is lost and poll again: `idle`
   * makes the server redeliver the task.
   */
  const giveUpIfLost = (tasksWait: boolean) => {
    const open = poll;
    const isInterrupted = server.interruptions() > interruptionsBefore;
    if (!open || !(isInterrupted || tasksWait)) return;
    const limit_ms = isInterrupted ? timing.lost_poll_ms : timing.call_timeout_ms;
    clock.after(limit_ms, () => poll === open && open.abort());
  };
  const run = async () => {
    const pauses = backoff(timing.task_retry);
    while (!signal.aborted) {
      const sent_ms = clock.monotonicMs();
      const open = new AbortController();
      poll = open;
      interruptionsBefore = server.interruptions();
      const answer = await server.nextTask(timing.task_wait_seconds, AbortSignal.any([signal, open.signal]));
      poll = null;
      if (open.signal.aborted && !(answer.ok && answer.body.task)) continue;
      if (!answer.ok) {
        await rest.rest(Math.max(pauses.nextMs(), (answer.failure.retry_after_seconds ?? 0) * 1000));
        continue;
      }
      pauses.reset();
      if (answer.body.task) await handle(parts, answer.body.task);
      else if (clock.monotonicMs() - sent_ms < min_poll_ms) await rest.rest(min_poll_ms);
    }
  };
  return {
    onBeatAnswered(tasks_waiting) {
      if (tasks_waiting > 0) rest.wake();
      giveUpIfLost(tasks_waiting > 0);
    },
    done: run(),
  };
}

async function handle(parts: TaskLoopParts, task: SignedTask): Promise<void> {
  const { state, results, onActive } = parts;
  const { identity, private_key } = state.read();
  if (!identity) throw new Error('a task came to an agent that is not registered');
  const { task_id, correlation_id, allocation_id, workflow_id } = task;
  const log = parts.log.with({ task_id, task_type: task.type, correlation_id, allocation_id, workflow_id });
  const refusal = await checked(parts, task, identity);
  if (refusal) {
    log.warn('task refused', { code: refusal.code, detail: refusal.message });
    return answer(parts, log, task, signedResult(task_id, identity, private_key, { status: 'failed', error: refusal }));
  }
  const given = results.given(task_id);
  if (given) {
    const later = logAfter(parts, log, task, given);
    later.info('task came again; answering as before');
    return answer(parts, later, task, given);
  }
  log.info('task begins');
  const start_ms = parts.time.nowMs();
  onActive(1);
  const outcome = await run(parts, log, task);
  onActive(0);
  if (!outcome) return;
  parts.onDone(task, outcome, start_ms);
  const result = signedResult(task_id, identity, private_key, outcome);
  results.keep(task_id, result);
  const later = logAfter(parts, log, task, outcome);
  later.info('task ends', { status: outcome.status, ...(outcome.status === 'failed' ? outcome.error : {}) });
  return answer(parts, later, task, result);
}

/**
 * A reused machine must know nothing of its former tenant, so the last log lines about that task go
 * without its ids.
 */
const logAfter = (parts: TaskLoopParts, log: Log, { type, params }: SignedTask, { status }: { status: string }): Log =>
  status === 'succeeded' && params.reuse === true ? parts.log.with({ task_type: type }) : log;

/**
 * An unknown key may be newer than our last refresh, so fetch the keys before refusing the task.
 */
async function checked(parts: TaskLoopParts, task: SignedTask, identity: Identity): Promise<Refusal | null> {
  const check = () =>
    refusalOf(task, {
      ...identity,
      keys: parts.state.read().task_keys,
      now_ms: parts.time.nowMs(),
      knows: (type) => taskTypeOf(type) !== null,
    });
  const known = parts.state.read().task_keys.some(({ kid }) => kid === task.kid);
  if (!known) await parts.refreshKeys();
  return check();
}

/** Returns null if the work was aborted: the lease was lost, or the agent stops. */
async function run(parts: TaskLoopParts, log: Log, task: SignedTask): Promise<TaskOutcome | null> {
  const work = taskTypeOf(task.type);
  if (!work) throw new Error('a task of an unknown type was let through');
  const lease = holdLease({ ...parts, log }, task);
  try {
    const outcome = await work({ task, machine: parts.machine, log, signal: lease.lost });
    return lease.lost.aborted && !lease.expired() ? null : outcome;
  } catch (error) {
    log.error('task broke', { detail: error instanceof Error ? error.stack : String(error) });
    return failed('task_crashed', errorText(error));
  } finally {
    lease.end();
  }
}

function signedResult(task_id: string, identity: Identity, key: string, outcome: TaskOutcome): TaskResult {
  // The signature must cover what the server parses, so serialise first.
  const sent: TaskOutcome = JSON.parse(JSON.stringify(outcome));
  const { node_instance_id } = identity;
  const result = sent.status === 'succeeded' ? sent.result : undefined;
  return { ...sent, signature: signed(key, { task_id, node_instance_id, status: sent.status, result }) };
}

/**
 * Retries until the result is accepted or can no longer be. An undelivered result answers the task
 * when it comes again.
 */
async function answer(
  { clock, time, server, timing, signal }: TaskLoopParts,
  log: Log,
  task: SignedTask,
  result: TaskResult,
) {
  const pauses = backoff(timing.task_retry);
  while (!signal.aborted) {
    const taken = await server.result(task, result, signal);
    if (taken.ok) return;
    const expired = Date.parse(task.expires_at) <= time.nowMs();
    if (!isTransient(taken.failure) || expired) {
      log.warn('the result was not taken', { failure: describeFailure(taken.failure) });
      return;
    }
    await pause(clock, Math.max(pauses.nextMs(), (taken.failure.retry_after_seconds ?? 0) * 1000), signal);
  }
}
