/**
 * Forwards stored node logs to Loki or an OTLP collector. The store already has the lines, so no
 * caller waits for the receiver. The queue is limited, and lines that do not fit or are refused are
 * dropped and counted.
 */
import { type Clock, pause } from '../clock.ts';
import type { OtlpHeaders } from '../settings/otlp-headers.ts';
import type { ServerSettings } from '../settings/settings.ts';
import type { Log } from './log.ts';
import { traceIdOf } from './trace.ts';

export interface ForwardedLine {
  seq: number;
  at: string;
  stream: string;
  line: string;
  /** The five ids, as far as they are known. */
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
  max_waiting?: number;
  /** Pauses between the attempts to send a batch. After the last attempt the batch is dropped. */
  retries_ms?: readonly number[];
}

const batchLines = 2_000;
const requestTimeoutMs = 10_000;
const defaultRetriesMs = [500, 2_000, 5_000, 10_000];

/** Whether a retry may help: no answer, or the receiver cannot take lines now. */
const isTemporary = (status: number | null) => status === null || status === 429 || status >= 500;

export function createLogForwarder({
  receiver,
  clock,
  log,
  max_waiting = 50_000,
  retries_ms = defaultRetriesMs,
}: ForwarderParts): LogForwarder {
  const waiting: ForwardedLine[] = [];
  const stopController = new AbortController();
  let sent = 0;
  let dropped = 0;
  let running: Promise<void> | null = null;

  /** Returns the status of the answer, or null if there was none. */
  const post = async (body: string): Promise<number | null> => {
    const timeout = new AbortController();
    const cancel = clock.after(requestTimeoutMs, () => timeout.abort());
    const headers = { 'content-type': 'application/json', ...receiver.headers };
    try {
      const answer = await fetch(receiver.url, { method: 'POST', headers, body, signal: timeout.signal });
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
      if (!isTemporary(status) || wait === null || stopController.signal.aborted) {
        dropped += batch.length;
        // On stop, do not try the other batches after one has failed.
        if (stopController.signal.aborted) dropped += waiting.splice(0).length;
        const facts = { receiver: receiver.name, status, lines: batch.length, dropped };
        log.warn(facts, 'log lines could not be forwarded; our own store has them');
        return;
      }
      await pause(clock, wait, stopController.signal);
    }
  };

  const run = async () => {
    while (waiting.length > 0) await send(waiting.splice(0, batchLines));
    running = null;
  };

  return {
    take(lines) {
      const room = Math.max(0, max_waiting - waiting.length);
      for (const line of lines.slice(0, room)) waiting.push(line);
      dropped += Math.max(0, lines.length - room);
      running ??= run();
    },
    figures: () => ({ receiver: receiver.name, sent, dropped, waiting: waiting.length }),
    async stop() {
      stopController.abort();
      await running;
    },
  };
}

/** The latest time that both formats allow. One later time makes a receiver refuse the batch. */
const maxNanos = 2n ** 63n - 1n;

function nanosOf(at: string): string {
  const nanos = BigInt(Date.parse(at)) * 1_000_000n;
  return `${nanos < maxNanos ? nanos : maxNanos}`;
}

/**
 * Moves credentials from the URL to a header, since `fetch` rejects them in URLs and they must
 * not be logged.
 */
function endpointFields(endpoint: string, path: string): Pick<LogReceiver, 'url' | 'headers'> {
  const url = new URL(endpoint);
  const { username, password } = url;
  url.username = '';
  url.password = '';
  url.pathname = `${url.pathname.replace(/\/+$/, '')}${path}`;
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const headers: Record<string, string> = username
    ? { authorization: `Basic ${Buffer.from(pair).toString('base64')}` }
    : {};
  return { url: url.href, headers };
}

const byStream = (lines: readonly ForwardedLine[]) => Map.groupBy(lines, ({ stream }) => stream);

export const lokiReceiver = (endpoint: string): LogReceiver => ({
  name: 'loki',
  ...endpointFields(endpoint, '/loki/api/v1/push'),
  write: (lines) => ({
    streams: [...byStream(lines)].map(([stream, streamLines]) => ({
      stream: { service_name: 'slipway-node', stream },
      values: streamLines.map(({ at, line, seq, ids }) => [nanosOf(at), line, { ...ids, seq: String(seq) }]),
    })),
  }),
});

const attribute = ([key, stringValue]: [string, string]) => ({ key, value: { stringValue } });
const info = { severityNumber: 9, severityText: 'INFO' };

const writeOtlp: LogReceiver['write'] = (lines) => ({
  resourceLogs: [
    {
      resource: { attributes: [attribute(['service.name', 'slipway-node'])] },
      scopeLogs: [
        {
          scope: { name: 'slipway' },
          logRecords: lines.map(({ at, line, stream, seq, ids }) => ({
            timeUnixNano: nanosOf(at),
            observedTimeUnixNano: nanosOf(at),
            ...info,
            body: { stringValue: line },
            attributes: Object.entries({ ...ids, stream, seq: String(seq) }).map(attribute),
            ...(ids.correlation_id && { traceId: traceIdOf(ids.correlation_id) }),
          })),
        },
      ],
    },
  ],
});

export const otlpReceiver = (endpoint: string, headers: OtlpHeaders = {}): LogReceiver => {
  const fields = endpointFields(endpoint, '/v1/logs');
  return { name: 'otlp', url: fields.url, headers: { ...fields.headers, ...headers }, write: writeOtlp };
};

type ForwarderSettings = Pick<ServerSettings, 'loki_endpoint' | 'otlp_logs_endpoint' | 'otlp_headers'>;

/** Opens a forwarder for each endpoint in the settings. */
export function openLogForwarders(
  settings: ForwarderSettings,
  parts: Omit<ForwarderParts, 'receiver'>,
): LogForwarder[] {
  const { loki_endpoint: loki, otlp_logs_endpoint: otlp, otlp_headers } = settings;
  const receivers = [...(loki ? [lokiReceiver(loki)] : []), ...(otlp ? [otlpReceiver(otlp, otlp_headers)] : [])];
  return receivers.map((receiver) => createLogForwarder({ ...parts, receiver }));
}
