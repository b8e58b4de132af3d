/** Gives a command its connection: calls with a timeout and safe retries, and the event stream. */
import { type Clock, pause } from '../../base/clock.ts';
import type { CorrelationId } from '../../base/ids.ts';
import { newSpanId, traceIdOf, traceparentOf } from '../../base/telemetry/trace.ts';
import { addresses } from '../../contract/addresses.generated.ts';
import { type CallInput, createClient, RequestRefused, ServerUnreachable } from '../../contract/client.ts';
import type { Problem } from '../../contract/errors/problem.ts';
import type { ReplyOf } from '../../contract/route.ts';
import type { OperationName, Routes } from '../../contract/routes.ts';
import { Interrupted } from '../terminal/failure.ts';
import { printLines, type Terminal } from '../terminal/terminal.ts';
import type { Connection } from './settings.ts';

export interface Session {
  server: string;
  /** For commands that make their own calls. */
  connection: Connection;
  correlation_id: CorrelationId;
  clock: Clock;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
  terminal: Terminal;
  json: boolean;
  call<Name extends OperationName>(
    name: Name,
    input: CallInput<Name>,
    options?: CallOptions,
  ): Promise<ReplyOf<Routes[Name]>>;
  openStream(
    query: Record<string, string>,
    last_event_id: string,
    signal: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array>>;
  /** Makes a command line to copy, with the connection flags that the user typed. */
  commandLine(...words: string[]): string;
}

export interface CallOptions {
  timeout_seconds?: number;
  /** Fails at the first transient refusal; for callers that retry themselves. */
  no_retry?: true;
}

const defaultTimeoutSeconds = 30;
const maxTries = 5;
const maxWaitSeconds = 5;
/** A longer wait prints a notice. */
const silentWaitSeconds = 0.5;

/** True if a later try may succeed: the server is unreachable, overloaded, not ready or failed. */
export const isTransient = (error: unknown): boolean =>
  error instanceof ServerUnreachable ||
  (error instanceof RequestRefused &&
    (error.problem.status >= 500 || error.problem.status === 429 || error.problem.code === 'idempotency_in_progress'));

/** Retries refusals only. An internal error (500) or an unreachable server is not retried here. */
const isRetryable = (error: unknown): error is RequestRefused =>
  error instanceof RequestRefused && isTransient(error) && error.problem.status !== 500;

export interface SessionInput {
  connection: Connection;
  correlation_id: CorrelationId;
  clock: Clock;
  signal: AbortSignal;
  terminal: Terminal;
  json: boolean;
  commandLine(...words: string[]): string;
}

export function openSession(input: SessionInput): Session {
  const { connection, clock, correlation_id } = input;
  const options = { base_url: connection.server, token: connection.token, addresses };
  const direct = createClient(options);
  // Used only with an idempotency key: without one, a repeated call could change something twice.
  const retrying = createClient({ ...options, retries: 3 });
  const span = { trace_id: traceIdOf(correlation_id), span_id: newSpanId(), sampled: true };
  const traceHeaders = { 'x-correlation-id': correlation_id, traceparent: traceparentOf(span) };

  const withTimeout = async <T>(seconds: number, signal: AbortSignal, run: (signal: AbortSignal) => Promise<T>) => {
    const timeout = new AbortController();
    const cancel = clock.after(seconds * 1000, () => timeout.abort());
    try {
      return await run(AbortSignal.any([signal, timeout.signal]));
    } catch (error) {
      if (signal.aborted) throw new Interrupted();
      if (timeout.signal.aborted)
        throw new ServerUnreachable(`${connection.server} accepted the call but did not answer within ${seconds} s`);
      throw error;
    } finally {
      cancel();
    }
  };

  const callOnce = async <Name extends OperationName>(name: Name, call: CallInput<Name>, options: CallOptions) => {
    const client = call.idempotency_key ? retrying : direct;
    const signal = call.signal ? AbortSignal.any([input.signal, call.signal]) : input.signal;
    const reply = await withTimeout(options.timeout_seconds ?? defaultTimeoutSeconds, signal, (callSignal) =>
      // TypeScript loses the generic type of a spread object.
      client.call(name, {
        ...call,
        headers: { ...traceHeaders, ...call.headers },
        signal: callSignal,
      } as CallInput<Name>),
    );
    if (typeof reply === 'string' && reply !== '')
      throw new ServerUnreachable(`${connection.server} answered with something other than JSON`);
    return reply;
  };

  /** Concurrent calls of one command share one notice. */
  let noticeUntilMs = 0;
  const waitBeforeRetry = async ({ title, retry_after_seconds = 1 }: Problem, triesLeft: number) => {
    const seconds = Math.min(maxWaitSeconds, retry_after_seconds);
    const nowMs = clock.monotonicMs();
    if (seconds > silentWaitSeconds && nowMs >= noticeUntilMs && !input.json) {
      noticeUntilMs = nowMs + seconds * 1000;
      const tries = triesLeft === 1 ? '1 try' : `${triesLeft} tries`;
      printLines(input.terminal.err, [`… ${title}. Retrying in ${Math.ceil(seconds)} s, ${tries} left.`]);
    }
    await pause(clock, seconds * 1000, input.signal);
  };

  return {
    ...input,
    server: connection.server,
    async call(name, call, options = {}) {
      for (let triesLeft = options.no_retry ? 0 : maxTries - 1; ; triesLeft--) {
        try {
          return await callOnce(name, call, options);
        } catch (error) {
          if (triesLeft <= 0 || !isRetryable(error)) throw error;
          await waitBeforeRetry(error.problem, triesLeft);
        }
      }
    },
    async openStream(query, last_event_id, signal) {
      const headers = { ...direct.headers(), ...traceHeaders, accept: 'text/event-stream' };
      const connecting = new AbortController();
      const cancel = clock.after(defaultTimeoutSeconds * 1000, () => connecting.abort());
      const reply = await fetch(direct.url('stream-open', { query }), {
        headers: last_event_id === '' ? headers : { ...headers, 'last-event-id': last_event_id },
        signal: AbortSignal.any([signal, connecting.signal]),
      }).finally(cancel);
      const contentType = reply.headers.get('content-type') ?? '';
      if (contentType.includes('problem+json')) throw new RequestRefused(JSON.parse(await reply.text()));
      if (!reply.ok || !reply.body || !contentType.includes('event-stream'))
        throw new ServerUnreachable(`${connection.server} does not stream events (HTTP ${reply.status})`);
      return reply.body;
    },
  };
}
