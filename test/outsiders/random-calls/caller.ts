/**
 * A caller that retries each request with the same idempotency key until a server answers it. The
 * caller logs unexpected answers.
 */
import { isDeepStrictEqual } from 'node:util';
import { pause, systemClock } from '../../../src/base/clock.ts';
import { type CallInput, type Client, RequestRefused, ServerUnreachable } from '../../../src/contract/client.ts';
import type { ReplyOf } from '../../../src/contract/route.ts';
import type { OperationName, Routes } from '../../../src/contract/routes.ts';

/** A reply, or the error code and HTTP status of a refusal. */
export type Answer<Name extends OperationName = OperationName> =
  | { reply: ReplyOf<Routes[Name]> }
  | { refused: string; status: number };

interface Request {
  name: OperationName;
  input: CallInput<OperationName>;
  answer: Answer;
}

export interface Caller {
  /** Sends a call that changes nothing, without an idempotency key. */
  read<Name extends OperationName>(name: Name, input: CallInput<Name>): Promise<Answer<Name>>;
  /** Sends a call with a new idempotency key, which `repeatOne` sends again. */
  change<Name extends OperationName>(name: Name, input: CallInput<Name>): Promise<Answer<Name>>;
  /** Repeats one of the last successful changes and logs an answer that differs from the first. */
  repeatOne(): Promise<void>;
}

export interface CallLog {
  calls: number;
  repeats: number;
  /** 5xx answers that do not ask the caller to retry. */
  failures: string[];
  /** Repeats whose answer differs from the first. */
  mismatches: string[];
}

/**
 * True for the answers of a server that is starting, stopping, overloaded or already serving this
 * request, and for a refusal by a rate limit.
 */
const isRetryable = (error: RequestRefused) =>
  error.problem.status === 503 || ['idempotency_in_progress', 'rate_limited'].includes(error.problem.code);
const maxAnswerMs = 180_000;
/** Per caller. The server keeps keys for a day, so a remembered key never expires during a run. */
const maxRememberedChanges = 20;

export function createCaller(
  clients: () => Client[],
  pick: (count: number) => number,
  log: CallLog,
  id: string,
): Caller {
  let keys = 0;
  const completedChanges: Request[] = [];

  const send = async (name: OperationName, input: CallInput<OperationName>): Promise<Answer> => {
    const endMs = systemClock.monotonicMs() + maxAnswerMs;
    for (let waitMs = 20; ; waitMs = Math.min(2 * waitMs, 500)) {
      const [client] = clients().slice(pick(2));
      try {
        log.calls++;
        return { reply: await (client as Client).call(name, input) };
      } catch (error) {
        if (error instanceof RequestRefused && !isRetryable(error)) {
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
      const keyedInput = { ...input, idempotency_key: `${id}-${++keys}` } as never;
      const answer = await send(name, keyedInput);
      if ('reply' in answer) {
        completedChanges.push({ name, input: keyedInput, answer });
        if (completedChanges.length > maxRememberedChanges) completedChanges.shift();
      }
      return answer as never;
    },
    async repeatOne() {
      const change = completedChanges[pick(completedChanges.length)];
      if (!change) return;
      log.repeats++;
      const secondAnswer = await send(change.name, change.input);
      if (!isDeepStrictEqual(secondAnswer, change.answer))
        log.mismatches.push(`${change.name}: ${JSON.stringify(change.answer)} then ${JSON.stringify(secondAnswer)}`);
    },
  };
}
