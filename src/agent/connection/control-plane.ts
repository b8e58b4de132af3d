/**
 * The agent's calls to the control plane, with the names of the route table. Failures are reported
 * through `onFailure`, so that they become evidence. Expected failures, those of calls that the
 * agent aborted, and those of `askTime` and `reissue` are not reported.
 */
import { newSpanId, traceIdOf, traceparentOf } from '../../base/telemetry/trace.ts';
import type {
  CredentialReissue,
  CredentialReply,
  Heartbeat,
  PrerequisiteReport,
  RegisterReply,
  RegisterRequest,
  SignedTask,
  TaskKeysReply,
  TaskResult,
} from '../../contract/agent/agent.ts';
import type { BootStage } from '../../contract/node.ts';
import type { Fact } from '../spool/fact-box.ts';
import type { CallFailure } from './call-failure.ts';
import {
  type BeatReply,
  readAcknowledged,
  readBeatReply,
  readCredentialReply,
  readLease,
  readLogsReply,
  readNextTask,
  readRegisterReply,
  readTaskKeys,
} from './replies.ts';
import type { Answer, Call, Transport } from './transport.ts';

/** A test compares these with the route table, which cannot be bundled into the agent. */
export const agentCalls = {
  'agent-register': '/v1/agent/register',
  'agent-heartbeat': '/v1/agent/heartbeat',
  'agent-task-next': '/v1/agent/tasks/next',
  'agent-task-progress': '/v1/agent/tasks/{id}/progress',
  'agent-task-result': '/v1/agent/tasks/{id}/result',
  'agent-logs': '/v1/agent/logs',
  'agent-boot': '/v1/agent/boot',
  'agent-prerequisites': '/v1/agent/prerequisites',
  'agent-evidence': '/v1/agent/evidence',
  'agent-credential-rotate': '/v1/agent/credential/rotate',
  'agent-credential-reissue': '/v1/agent/credential/reissue',
  'agent-task-keys': '/v1/agent/task-keys',
  'health-get': '/healthz',
} as const;
type CallName = keyof typeof agentCalls;

export interface RegisterOptions {
  credential: string | null;
  correlation_id: string | null;
  signal: AbortSignal;
}

export interface ControlPlane {
  register(request: RegisterRequest, options: RegisterOptions): Promise<Answer<RegisterReply>>;
  rotate(request: { signature: string }, signal: AbortSignal): Promise<Answer<CredentialReply>>;
  /**
   * Sends no credential, waits for no turn and reports no failure: the credential is lost, and the
   * refused calls have reported that.
   */
  reissue(request: CredentialReissue, signal: AbortSignal): Promise<Answer<CredentialReply>>;
  taskKeys(signal: AbortSignal): Promise<Answer<TaskKeysReply>>;
  heartbeat(beat: Heartbeat, signal: AbortSignal): Promise<Answer<BeatReply>>;
  /** Sends `idle=true`; call it only while no task is running. */
  nextTask(wait_seconds: number, signal: AbortSignal): Promise<Answer<{ task: SignedTask | null }>>;
  progress(task: SignedTask, message: string, signal: AbortSignal): Promise<Answer<{ lease_seconds: number }>>;
  result(task: SignedTask, result: TaskResult, signal: AbortSignal): Promise<Answer<true>>;
  logs(ndjson: Buffer, signal: AbortSignal): Promise<Answer<{ acknowledged_seq: number }>>;
  boot(stages: BootStage[], signal: AbortSignal): Promise<Answer<true>>;
  prerequisites(results: PrerequisiteReport['results'], signal: AbortSignal): Promise<Answer<true>>;
  evidence(facts: Fact[], signal: AbortSignal): Promise<Answer<true>>;
  /**
   * Makes a call only to learn the server's time from its Date header. Ignores failures, because
   * the next call reports them.
   */
  askTime(timeout_ms: number, signal: AbortSignal): Promise<void>;
  /** See `Transport`. */
  interruptions(): number;
}

export interface ControlPlaneParts {
  transport: Transport;
  credential(): string | null;
  timeout_ms: number;
  beat_answer_ms: number;
  /** Read for each request, because the id may change. */
  correlation_id(): string | null;
  /** Resolves when a call may ask the server. See `CredentialDoubt`. */
  waitForTurn(signal: AbortSignal): Promise<void>;
  onAnswer(): void;
  onFailure(failure: CallFailure): void;
}

interface RequestOptions {
  id?: string;
  query?: string;
  json?: unknown;
  ndjson?: Buffer;
  credential?: string | null;
  correlation_id?: string | null;
  /** The trace of the task that the call is about. */
  traceparent?: string | undefined;
  timeout_ms?: number;
  answer_timeout_ms?: number;
  is_poll?: boolean;
  /** A failure code that is not reported through `onFailure`. */
  expected_code?: string;
  signal: AbortSignal;
}

/** How many polls omit `idle` after a server of an earlier version refused it. */
const max_polls_without_idle = 100;

export function controlPlane(parts: ControlPlaneParts): ControlPlane {
  const send = async <T>(
    name: CallName,
    options: RequestOptions,
    read: (body: unknown) => T | null,
  ): Promise<Answer<T>> => {
    if (name !== 'agent-register') await parts.waitForTurn(options.signal);
    const usedCredential = parts.credential();
    const answer = await parts.transport.call(requestOf(parts, name, options), read);
    // If the credential was rotated during the call, it is not unknown but outdated: repeat the
    // call with the new one.
    const isOutdated =
      options.credential === undefined && usedCredential !== parts.credential() && !options.signal.aborted;
    if (!answer.ok && answer.failure.code === 'credential_unknown' && isOutdated) return send(name, options, read);
    if (answer.ok) parts.onAnswer();
    // A call that we aborted ourselves has not failed.
    else if (!options.signal.aborted && answer.failure.code !== options.expected_code) parts.onFailure(answer.failure);
    return answer;
  };
  let remaining_without_idle = 0;
  return {
    register: (json, options) => send('agent-register', { json, ...options }, readRegisterReply),
    rotate: (json, signal) => send('agent-credential-rotate', { json, signal }, readCredentialReply),
    reissue: (json, signal) =>
      parts.transport.call(
        requestOf(parts, 'agent-credential-reissue', { json, credential: null, signal }),
        readCredentialReply,
      ),
    taskKeys: (signal) => send('agent-task-keys', { signal }, readTaskKeys),
    heartbeat: (json, signal) =>
      send('agent-heartbeat', { json, signal, answer_timeout_ms: parts.beat_answer_ms }, readBeatReply),
    async nextTask(wait_seconds, signal) {
      const timeout_ms = wait_seconds * 1000 + parts.timeout_ms;
      const options = { query: `?wait=${wait_seconds}`, timeout_ms, is_poll: true, signal };
      if (remaining_without_idle > 0) remaining_without_idle--;
      else {
        const idle = { query: `${options.query}&idle=true`, expected_code: 'invalid_request' };
        const answer = await send('agent-task-next', { ...options, ...idle }, readNextTask);
        if (answer.ok || answer.failure.code !== 'invalid_request') return answer;
        remaining_without_idle = max_polls_without_idle;
      }
      return send('agent-task-next', options, readNextTask);
    },
    progress: ({ task_id, correlation_id, traceparent }, message, signal) =>
      send('agent-task-progress', { id: task_id, json: { message }, correlation_id, traceparent, signal }, readLease),
    result: ({ task_id, correlation_id, traceparent }, json, signal) =>
      send('agent-task-result', { id: task_id, json, correlation_id, traceparent, signal }, readAcknowledged),
    logs: (ndjson, signal) => send('agent-logs', { ndjson, signal }, readLogsReply),
    boot: (stages, signal) => send('agent-boot', { json: { stages }, signal }, readAcknowledged),
    prerequisites: (results, signal) => send('agent-prerequisites', { json: { results }, signal }, readAcknowledged),
    evidence: (facts, signal) => send('agent-evidence', { json: { facts }, signal }, readAcknowledged),
    async askTime(timeout_ms, signal) {
      await parts.transport.call(requestOf(parts, 'health-get', { credential: null, timeout_ms, signal }), () => true);
    },
    interruptions: parts.transport.interruptions,
  };
}

/** Routine calls name the trace but are not sampled, so they create no spans. */
const routineTraceparent = (correlation_id: string) =>
  traceparentOf({ trace_id: traceIdOf(correlation_id), span_id: newSpanId(), sampled: false });

function requestOf(parts: ControlPlaneParts, name: CallName, options: RequestOptions): Call {
  const {
    id,
    query = '',
    json,
    ndjson,
    signal,
    timeout_ms = parts.timeout_ms,
    answer_timeout_ms,
    is_poll = false,
  } = options;
  const credential = options.credential === undefined ? parts.credential() : options.credential;
  const correlation_id = options.correlation_id ?? parts.correlation_id();
  const body = ndjson ?? (json === undefined ? undefined : JSON.stringify(json));
  const headers: Record<string, string> = { accept: 'application/json' };
  if (body !== undefined) headers['content-type'] = ndjson ? 'application/x-ndjson' : 'application/json';
  if (credential !== null) headers.authorization = `Bearer ${credential}`;
  if (correlation_id !== null) headers['x-correlation-id'] = correlation_id;
  const traceparent = options.traceparent ?? (correlation_id === null ? null : routineTraceparent(correlation_id));
  if (traceparent !== null) headers.traceparent = traceparent;
  const path = agentCalls[name].replace('{id}', encodeURIComponent(id ?? '')) + query;
  return {
    name,
    method: body === undefined ? 'GET' : 'POST',
    path,
    headers,
    body,
    timeout_ms,
    answer_timeout_ms,
    is_poll,
    signal,
  };
}
