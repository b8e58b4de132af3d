/**
 * A caller that repeats a request with the same idempotency key until it is answered, and records
 * every answer.
 */
import { isDeepStrictEqual } from 'node:util';
import { pause, systemClock } from '../../../src/base/clock.ts';
import { type CallInput, type Client, RequestRefused, ServerUnreachable } from '../../../src/contract/client.ts';
import type { ReplyOf } from '../../../src/contract/route.ts';
import type { OperationName, Routes } from '../../../src/contract/routes.ts';

/** A reply or the code of a refusal. */
export type Answer<Name extends OperationName = OperationName> =
  | { reply: ReplyOf<Routes[Name]> }
  | { refused: string; status: number };

interface Request {
  name: OperationName;
  input: CallInput<OperationName>;
  answer: Answer;
}

export interface Caller {
  /** Without a key, for calls that change nothing. */
  read<Name extends OperationName>(name: Name, input: CallInput<Name>): Promise<Answer<Name>>;
  /** With its own key, so that a repeat is the same request. */
  change<Name extends OperationName>(name: Name, input: CallInput<Name>): Promise<Answer<Name>>;
  /** Repeats one of the last successful changes and records a differing answer. */
  repeatOne(pick: (count: number) => number): Promise<void>;
}

export interface Log {
  calls: number;
  repeats: number;
  /** 5xx answers other than "retry later". */
  failures: string[];
  /** Repeats whose answer differs from the first. */
  differing: string[];
}

/**
 * Sent by a server that is stopping, starting, or already serving the same request; the caller
 * retries.
 */
const isNotNow = (error: RequestRefused) =>
  error.problem.status === 503 || ['idempotency_in_progress', 'rate_limited'].includes(error.problem.code);
const maxMs = 180_000;
/** Per caller; a server keeps keys for a day. */
const maxRemembered = 20;

export function createCaller(clients: () => Client[], pick: (count: number) => number, log: Log, id: string): Caller {
  let keys = 0;
  const carriedOut: Request[] = [];

  const send = async (name: OperationName, input: CallInput<OperationName>): Promise<Answer> => {
    const endMs = systemClock.monotonicMs() + maxMs;
    for (let waitMs = 20; ; waitMs = Math.min(2 * waitMs, 500)) {
      const [client] = clients().slice(pick(2));
      try {
        log.calls++;
        return { reply: await (client as Client).call(name, input) };
      } catch (error) {
        if (error instanceof RequestRefused && !isNotNow(error)) {
          const { code, status } = error.problem;
          if (status >= 500) log.failures.push(`${name}: ${status} ${code} ${error.message}`);
          return { refused: code, status };
        }
        if (!(error instanceof RequestRefused || error instanceof ServerUnreachable)) throw error;
        if (systemClock.monotonicMs() > endMs) throw new Error(`${name} was not answered`, { cause: error });
      }
      await pause(systemClock, waitMs);
    }
  };

  return {
    read: (name, input) => send(name, input as never) as never,
    async change(name, input) {
      const keyed = { ...input, idempotency_key: `${id}-${++keys}` } as never;
      const answer = await send(name, keyed);
      if ('reply' in answer) {
        carriedOut.push({ name, input: keyed, answer });
        if (carriedOut.length > maxRemembered) carriedOut.shift();
      }
      return answer as never;
    },
    async repeatOne(choose) {
      const before = carriedOut[choose(carriedOut.length)];
      if (!before) return;
      log.repeats++;
      const again = await send(before.name, before.input);
      if (!isDeepStrictEqual(again, before.answer))
        log.differing.push(`${before.name}: ${JSON.stringify(before.answer)} then ${JSON.stringify(again)}`);
    },
  };
}
