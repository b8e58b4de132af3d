/**
 * Forwards stored node logs to Loki or an OTLP collector. The store already has the lines, so
 * nothing waits for this: the queue is bounded, and lines that do not fit or are refused are
 * dropped and counted.
 */
import { type Clock, pause } from '../clock.ts';
import type { Log } from './log.ts';

export interface ForwardedLine {
  seq: number;
  at: string;
  stream: string;
  line: string;
  /** The five ids, as far as known. */
  ids: Readonly<Record<string, string>>;
}

/** A destination and its encoding. */
export interface LogReceiver {
  name: 'loki' | 'otlp';
  url: string;
  headers: Readonly<Record<string, string>>;
  write(lines: readonly ForwardedLine[]): unknown;
}

export interface ForwardFigures {
  receiver: LogReceiver['name'];
  sent: number;
  dropped: number;
  waiting: number;
}

export interface LogForwarder {
  take(lines: readonly ForwardedLine[]): void;
  figures(): ForwardFigures;
  stop(): Promise<void>;
}

export interface ForwarderParts {
  receiver: LogReceiver;
  clock: Clock;
  log: Pick<Log, 'warn'>;
  most_waiting?: number;
  /** Pauses between the attempts of a batch; after the last, it is dropped. */
  retries_ms?: readonly number[];
}

const batchLines = 2_000;
const answerWithinMs = 10_000;
const usualRetriesMs = [500, 2_000, 5_000, 10_000];

/** Worth a retry: no answer, or the receiver cannot take it now. */
const isTemporary = (status: number | null) => status === null || status === 429 || status >= 500;

export function createLogForwarder({
  receiver,
  clock,
  log,
  most_waiting = 50_000,
  retries_ms = usualRetriesMs,
}: ForwarderParts): LogForwarder {
  const waiting: ForwardedLine[] = [];
  const stopping = new AbortController();
  let sent = 0;
  let dropped = 0;
  let running: Promise<void> | null = null;

  /** The status of the answer; null if there was none. */
  const post = async (body: string): Promise<number | null> => {
    const late = new AbortController();
    const cancel = clock.after(answerWithinMs, () => late.abort());
    const headers = { 'content-type': 'application/json', ...receiver.headers };
    try {
      const answer = await fetch(receiver.url, { method: 'POST', headers, body, signal: late.signal });
      await answer.arrayBuffer();
      return answer.status;
    } catch (error) {
      if (error instanceof Error) return null;
      throw error;
    } finally {
      cancel();
    }
  };

  const send = async (batch: ForwardedLine[]) => {
    const body = JSON.stringify(receiver.write(batch));
    for (const wait of [...retries_ms, null]) {
      const status = await post(body);
      if (status !== null && status < 300) {
        sent += batch.length;
        return;
      }
      if (!isTemporary(status) || wait === null || stopping.signal.aborted) {
        dropped += batch.length;
        // On stop, do not wait for a receiver that takes nothing.
        if (stopping.signal.aborted) dropped += waiting.splice(0).length;
        const facts = { receiver: receiver.name, status, lines: batch.length, dropped };
        log.warn(facts, 'log lines could not be forwarded; our own store has them');
        return;
      }
      await pause(clock, wait, stopping.signal);
    }
  };

  const run = async () => {
    while (waiting.length > 0) await send(waiting.splice(0, batchLines));
    running = null;
  };

  return {
    take(lines) {
      const room = Math.max(0, most_waiting - waiting.length);
      for (const line of lines.slice(0, room)) waiting.push(line);
      dropped += Math.max(0, lines.length - room);
      running ??= run();
    },
    figures: () => ({ receiver: receiver.name, sent, dropped, waiting: waiting.length }),
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
