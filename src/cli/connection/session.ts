/** One invocation's line to the server: bounded calls, a patient retry where that is safe, and the event stream. */
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
  /** For a command that makes its calls itself. */
  connection: Connection;
  correlation_id: CorrelationId;
  clock: Clock;
  /** Fires at Ctrl-C. */
  signal: AbortSignal;
  terminal: Terminal;
  json: boolean;
  call<Name extends OperationName>(
    name: Name,
    input: CallInput<Name>,
    bound?: CallBound,
  ): Promise<ReplyOf<Routes[Name]>>;
  openStream(
    query: Record<string, string>,
    last_event_id: string,
    signal: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array>>;
  /** A command line of ours that can be copied and works from where the person stands. */
  commandLine(...words: string[]): string;
}

export interface CallBound {
  seconds?: number;
  /** Answers a passing refusal at once instead of trying again; for callers that ask again by themselves. */
  impatient?: true;
}

const defaultBoundSeconds = 30;
const tries = 5;
const longestWaitSeconds = 5;
/** Whoever waits for longer wants to know what for. */
const silentWaitSeconds = 0.5;

/** Nobody answered, or somebody who will soon: worth asking again. */
export const isPassing = (error: unknown): boolean =>
  error instanceof ServerUnreachable ||
  (error instanceof RequestRefused &&
    (error.problem.status >= 500 || error.problem.status === 429 || error.problem.code === 'idempotency_in_progress'));

/** A defect of the server is not asked for twice; only refusals that say "later" are. */
const saysLater = (error: unknown): error is RequestRefused =>
  error instanceof RequestRefused && isPassing(error) && error.problem.status !== 500;

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
  // Repeating a change is safe only under an idempotency key, which the server remembers.
  const repeating = createClient({ ...options, retries: 3 });
  const span = { trace_id: traceIdOf(correlation_id), span_id: newSpanId(), sampled: true };
  const edge = { 'x-correlation-id': correlation_id, traceparent: traceparentOf(span) };

  /** Fails what takes too long; `signal` still ends it at once. */
  const bounded = async <T>(seconds: number, signal: AbortSignal, run: (signal: AbortSignal) => Promise<T>) => {
    const bound = new AbortController();
    const cancel = clock.after(seconds * 1000, () => bound.abort());
    try {
      return await run(AbortSignal.any([signal, bound.signal]));
    } catch (error) {
      if (signal.aborted) throw new Interrupted();
      if (bound.signal.aborted)
        throw new ServerUnreachable(`${connection.server} took the call but did not answer within ${seconds} s`);
      throw error;
    } finally {
      cancel();
    }
  };

  const once = async <Name extends OperationName>(name: Name, call: CallInput<Name>, bound: CallBound) => {
    const client = call.idempotency_key ? repeating : direct;
    const signal = call.signal ? AbortSignal.any([input.signal, call.signal]) : input.signal;
    const reply = await bounded(bound.seconds ?? defaultBoundSeconds, signal, (within) =>
      // Spread, a generic input is no longer known to be itself.
      client.call(name, { ...call, headers: { ...edge, ...call.headers }, signal: within } as CallInput<Name>),
    );
    if (typeof reply === 'string' && reply !== '')
      throw new ServerUnreachable(`${connection.server} answered with something else than JSON`);
    return reply;
  };

  /** A command may ask several things at once, and all of them wait: that is said once. */
  let saidUntilMs = 0;
  const waitAsTold = async ({ title, retry_after_seconds = 1 }: Problem, left: number) => {
    const seconds = Math.min(longestWaitSeconds, retry_after_seconds);
    const nowMs = clock.monotonicMs();
    if (seconds > silentWaitSeconds && nowMs >= saidUntilMs && !input.json) {
      saidUntilMs = nowMs + seconds * 1000;
      printLines(input.terminal.err, [
        `… ${title}. Asking again in ${Math.ceil(seconds)} s${left > 1 ? `, ${left} times at most` : ', for the last time'}.`,
      ]);
    }
    await pause(clock, seconds * 1000, input.signal);
  };

  return {
    ...input,
    server: connection.server,
    async call(name, call, bound = {}) {
      for (let left = bound.impatient ? 0 : tries - 1; ; left--) {
        try {
          return await once(name, call, bound);
        } catch (error) {
          if (left <= 0 || !saysLater(error)) throw error;
          await waitAsTold(error.problem, left);
        }
      }
    },
    async openStream(query, last_event_id, signal) {
      const headers = { ...direct.headers(), ...edge, accept: 'text/event-stream' };
      const connecting = new AbortController();
      const cancel = clock.after(defaultBoundSeconds * 1000, () => connecting.abort());
      const reply = await fetch(direct.address('stream-open', { query }), {
        headers: last_event_id === '' ? headers : { ...headers, 'last-event-id': last_event_id },
        signal: AbortSignal.any([signal, connecting.signal]),
      }).finally(cancel);
      const kind = reply.headers.get('content-type') ?? '';
      if (kind.includes('problem+json')) throw new RequestRefused(JSON.parse(await reply.text()));
      if (!reply.ok || !reply.body || !kind.includes('event-stream'))
        throw new ServerUnreachable(`${connection.server} does not stream events (HTTP ${reply.status})`);
      return reply.body;
    },
  };
}
