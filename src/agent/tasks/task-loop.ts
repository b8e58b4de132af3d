/**
 * Fetches tasks one at a time by long polling. Checks each task, runs it, and sends the result
 * until the server accepts it.
 */
import { createBackoff } from '../../base/backoff.ts';
import { type Clock, pause } from '../../base/clock.ts';
import type { SignedTask, TaskResult } from '../../contract/agent/agent.ts';
import { describeFailure, isTransient } from '../connection/call-failure.ts';
import type { ControlPlane } from '../connection/control-plane.ts';
import { signatureOf } from '../connection/keys.ts';
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
  /** Aborted when the work must end: the lease is lost, the task expired, or the agent stops. */
  signal: AbortSignal;
  /** Whether the task has expired. Its outcome is reported even then. */
  isExpired(): boolean;
  end(): void;
}

/** More than one renewal per lease, so that one lost call does not lose the lease. */
const renewals_per_lease = 3;
const min_renewal_ms = 100;

/** Renews the lease of a running task, and aborts the work if the lease is lost. */
function holdLease({ clock, time, server, log, signal }: LeaseParts, task: SignedTask): Lease {
  const work = new AbortController();
  const renewals = new AbortController();
  let isExpired = false;
  const abortWork = () => work.abort();
  signal.addEventListener('abort', abortWork, { once: true });
  const cancel = clock.after(Date.parse(task.expires_at) - time.nowMs(), () => {
    isExpired = true;
    abortWork();
  });
  const renew = async () => {
    let lease_seconds = task.lease_seconds;
    while (true) {
      await pause(clock, Math.max(min_renewal_ms, (lease_seconds * 1000) / renewals_per_lease), renewals.signal);
      if (renewals.signal.aborted || work.signal.aborted) return;
      const answer = await server.progress(task, `${task.type} is running`, renewals.signal);
      if (answer.ok) lease_seconds = answer.body.lease_seconds;
      else if (!isTransient(answer.failure) && !renewals.signal.aborted) {
        log.warn('the lease is lost; ending the work', { failure: describeFailure(answer.failure) });
        return abortWork();
      }
    }
  };
  renew();
  return {
    signal: work.signal,
    isExpired: () => isExpired,
    end() {
      signal.removeEventListener('abort', abortWork);
      cancel();
      renewals.abort();
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
  /** Call after each answered heartbeat. Ends the retry pause if tasks are waiting. */
  onBeatAnswered(tasks_waiting: number): void;
  done: Promise<void>;
}

/** A server that is shutting down answers at once; this pause prevents a tight loop. */
const min_poll_ms = 1_000;

export function taskLoop(parts: TaskLoopParts): TaskLoop {
  const { clock, server, timing, signal } = parts;
  const retryPause = waker(clock, signal);
  let poll: AbortController | null = null;
  let interruptionsAtStart = 0;
  /**
   * A poll is answered as soon as a task is queued. If tasks wait while the poll is open, its
   * answer is slow or lost, and the poll is aborted after the call timeout. If another call failed
   * since the poll was sent, the poll is aborted earlier, even if no task waits. The next poll says
   * `idle`, so the server delivers the task again.
   */
  const abortPollIfLost = (hasWaitingTasks: boolean) => {
    const openPoll = poll;
    const isInterrupted = server.interruptions() > interruptionsAtStart;
    if (!openPoll || !(isInterrupted || hasWaitingTasks)) return;
    const limit_ms = isInterrupted ? timing.lost_poll_ms : timing.call_timeout_ms;
    clock.after(limit_ms, () => poll === openPoll && openPoll.abort());
  };
  const run = async () => {
    const pauses = createBackoff(timing.task_retry);
    while (!signal.aborted) {
      const sent_ms = clock.monotonicMs();
      const openPoll = new AbortController();
      poll = openPoll;
      interruptionsAtStart = server.interruptions();
      const answer = await server.nextTask(timing.task_wait_seconds, AbortSignal.any([signal, openPoll.signal]));
      poll = null;
      if (openPoll.signal.aborted && !(answer.ok && answer.body.task)) continue;
      if (!answer.ok) {
        await retryPause.rest(Math.max(pauses.nextMs(), (answer.failure.retry_after_seconds ?? 0) * 1000));
        continue;
      }
      pauses.reset();
      if (answer.body.task) await handleTask(parts, answer.body.task);
      else if (clock.monotonicMs() - sent_ms < min_poll_ms) await retryPause.rest(min_poll_ms);
    }
  };
  return {
    onBeatAnswered(tasks_waiting) {
      if (tasks_waiting > 0) retryPause.wake();
      abortPollIfLost(tasks_waiting > 0);
    },
    done: run(),
  };
}

async function handleTask(parts: TaskLoopParts, task: SignedTask): Promise<void> {
  const { state, results, onActive } = parts;
  const { identity, private_key } = state.read();
  if (!identity) throw new Error('an agent that is not registered received a task');
  const { task_id, correlation_id, allocation_id, workflow_id } = task;
  const log = parts.log.with({ task_id, task_type: task.type, correlation_id, allocation_id, workflow_id });
  const refusal = await checkTask(parts, task, identity);
  if (refusal) {
    log.warn('task refused', { code: refusal.code, detail: refusal.message });
    return sendResult(
      parts,
      log,
      task,
      signResult(task_id, identity, private_key, { status: 'failed', error: refusal }),
    );
  }
  const storedResult = results.read(task_id);
  if (storedResult) {
    const resultLog = selectResultLog(parts, log, task, storedResult);
    resultLog.info('task was delivered again; sending the stored result');
    return sendResult(parts, resultLog, task, storedResult);
  }
  log.info('task started');
  const start_ms = parts.time.nowMs();
  onActive(1);
  const outcome = await runTask(parts, log, task);
  onActive(0);
  if (!outcome) return;
  parts.onDone(task, outcome, start_ms);
  const result = signResult(task_id, identity, private_key, outcome);
  results.store(task_id, result);
  const resultLog = selectResultLog(parts, log, task, outcome);
  resultLog.info('task ended', { status: outcome.status, ...(outcome.status === 'failed' ? outcome.error : {}) });
  return sendResult(parts, resultLog, task, result);
}

/**
 * A reused machine must keep nothing about its former tenant. So after a clean for reuse, log lines
 * about that task no longer contain its ids.
 */
const selectResultLog = (
  parts: TaskLoopParts,
  log: Log,
  { type, params }: SignedTask,
  { status }: { status: string },
): Log => (status === 'succeeded' && params.reuse === true ? parts.log.with({ task_type: type }) : log);

/** Fetches the keys first if the task's key is unknown: it may be newer than the last refresh. */
async function checkTask(parts: TaskLoopParts, task: SignedTask, identity: Identity): Promise<Refusal | null> {
  const isKnownKey = parts.state.read().task_keys.some(({ kid }) => kid === task.kid);
  if (!isKnownKey) await parts.refreshKeys();
  return refusalOf(task, {
    ...identity,
    keys: parts.state.read().task_keys,
    now_ms: parts.time.nowMs(),
    supportsType: (type) => taskTypeOf(type) !== null,
  });
}

/** Returns null if the work was aborted: the lease was lost, or the agent stops. */
async function runTask(parts: TaskLoopParts, log: Log, task: SignedTask): Promise<TaskOutcome | null> {
  const work = taskTypeOf(task.type);
  if (!work) throw new Error('a task of an unknown type passed the check');
  const lease = holdLease({ ...parts, log }, task);
  try {
    const outcome = await work({ task, machine: parts.machine, log, signal: lease.signal });
    return lease.signal.aborted && !lease.isExpired() ? null : outcome;
  } catch (error) {
    log.error('task crashed', { detail: error instanceof Error ? error.stack : String(error) });
    return failed('task_crashed', errorText(error));
  } finally {
    lease.end();
  }
}

function signResult(task_id: string, identity: Identity, key: string, outcome: TaskOutcome): TaskResult {
  // The signature must cover the values that the server parses, so serialise and parse first.
  const wireOutcome: TaskOutcome = JSON.parse(JSON.stringify(outcome));
  const { node_instance_id } = identity;
  const result = wireOutcome.status === 'succeeded' ? wireOutcome.result : undefined;
  return {
    ...wireOutcome,
    signature: signatureOf(key, { task_id, node_instance_id, status: wireOutcome.status, result }),
  };
}

/**
 * Retries until the server accepts or refuses the result, or the task expires. The result stays
 * stored, so it can be sent if the server delivers the task again.
 */
async function sendResult(
  { clock, time, server, timing, signal }: TaskLoopParts,
  log: Log,
  task: SignedTask,
  result: TaskResult,
) {
  const pauses = createBackoff(timing.task_retry);
  while (!signal.aborted) {
    const reply = await server.result(task, result, signal);
    if (reply.ok) return;
    const isExpired = Date.parse(task.expires_at) <= time.nowMs();
    if (!isTransient(reply.failure) || isExpired) {
      log.warn('the server did not accept the result', { failure: describeFailure(reply.failure) });
      return;
    }
    await pause(clock, Math.max(pauses.nextMs(), (reply.failure.retry_after_seconds ?? 0) * 1000), signal);
  }
}
