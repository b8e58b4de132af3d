/**
 * Long polls: calls that wait until the evidence tail brings a matching fact, instead of querying
 * the database. When the server closes, they end with an answer. A load balancer would report a
 * call that is cut off as a failure of the server.
 */
import type { ServerResponse } from 'node:http';
import { type Clock, pause } from '../../base/clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { EvidenceTail } from '../../store/evidence/tail.ts';

export interface LongPolls {
  /**
   * Resolves at the first matching fact, when the time is over, when the caller disconnects, and
   * when the server closes.
   */
  waitForFact(response: ServerResponse, maxMs: number, matches: (fact: Evidence) => boolean): Promise<void>;
  /** Once true, a call must answer with what it has. */
  areClosing(): boolean;
  /** Ends all waits. Resolves when their calls are answered, or soon. */
  close(): Promise<void>;
}

const maxAnswerMs = 2_000;

interface Wait {
  response: ServerResponse;
  end(): void;
}

export function createLongPolls({ tail, clock }: { tail: Pick<EvidenceTail, 'subscribe'>; clock: Clock }): LongPolls {
  const waits = new Set<Wait>();
  let isClosing = false;
  return {
    waitForFact: (response, maxMs, matches) =>
      new Promise((resolve) => {
        // The caller disconnected earlier; the close event has passed.
        if (response.closed) return resolve();
        const end = () => {
          waits.delete(wait);
          unsubscribe();
          cancel();
          response.off('close', end);
          resolve();
        };
        const wait = { response, end };
        waits.add(wait);
        const unsubscribe = tail.subscribe((fact) => {
          if (matches(fact)) end();
        });
        const cancel = clock.after(isClosing ? 0 : maxMs, end);
        response.once('close', end);
      }),
    areClosing: () => isClosing,
    async close() {
      isClosing = true;
      const answers = [...waits].map(
        ({ response, end }) =>
          new Promise<void>((resolve) => {
            response.once('close', resolve);
            end();
          }),
      );
      const answered = new AbortController();
      await Promise.race([Promise.all(answers), pause(clock, maxAnswerMs, answered.signal)]);
      answered.abort();
    },
  };
}
