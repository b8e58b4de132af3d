/** A caller that keeps asking, with the same idempotency key, until somebody answers; and remembers every answer. */
import { isDeepStrictEqual } from 'node:util';
import { pause, systemClock } from '../../../src/base/clock.ts';
import { type CallInput, type Client, RequestRefused, ServerUnreachable } from '../../../src/contract/client.ts';
import type { ReplyOf } from '../../../src/contract/route.ts';
import type { OperationName, Routes } from '../../../src/contract/routes.ts';

/** A reply, or the code of a refusal: both are answers. */
export type Answer<Name extends OperationName = OperationName> =
  | { reply: ReplyOf<Routes[Name]> }
  | { refused: string; status: number };

interface Asked {
  name: OperationName;
  input: CallInput<OperationName>;
  answer: Answer;
}

export interface Caller {
  /** Without a key, for calls that change nothing. */
  read<Name extends OperationName>(name: Name, input: CallInput<Name>): Promise<Answer<Name>>;
  /** With a key of its own, so that a repeat is the same request. */
  change<Name extends OperationName>(name: Name, input: CallInput<Name>): Promise<Answer<Name>>;
  /** Repeats one of the last changes that were carried out, and notes when the answer differs. */
  repeatOne(pick: (count: number) => number): Promise<void>;
}

export interface Log {
  calls: number;
  repeats: number;
  /** Answers of 5xx other than "not now". */
  failures: string[];
  /** Repeats with another answer than the first. */
  differing: string[];
}

/** Said by a server that is about to end, has just begun, or has the same request in progress: asked again. */
const isNotNow = (error: RequestRefused) =>
  error.problem.status === 503 || ['idempotency_in_progress', 'rate_limited'].includes(error.problem.code);
const maxMs = 180_000;
/** Of each caller; a server keeps keys for a day. */
const remembered = 20;

export function createCaller(clients: () => Client[], pick: (count: number) => number, log: Log, id: string): Caller {
  let keys = 0;
  const carriedOut: Asked[] = [];

  const ask = async (name: OperationName, input: CallInput<OperationName>): Promise<Answer> => {
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
    read: (name, input) => ask(name, input as never) as never,
    async change(name, input) {
      const keyed = { ...input, idempotency_key: `${id}-${++keys}` } as never;
      const answer = await ask(name, keyed);
      if ('reply' in answer) {
        carriedOut.push({ name, input: keyed, answer });
        if (carriedOut.length > remembered) carriedOut.shift();
      }
      return answer as never;
    },
    async repeatOne(choose) {
      const before = carriedOut[choose(carriedOut.length)];
      if (!before) return;
      log.repeats++;
      const again = await ask(before.name, before.input);
      if (!isDeepStrictEqual(again, before.answer))
        log.differing.push(`${before.name}: ${JSON.stringify(before.answer)} then ${JSON.stringify(again)}`);
    },
  };
}
