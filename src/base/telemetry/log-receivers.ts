/**
 * Encodes node logs for Loki's push API and for OTLP. The five ids go as structured metadata, never
 * as labels.
 */
import type { ForwardedLine, LogReceiver } from './log-forwarder.ts';
import { traceIdOf } from './trace.ts';

/** The latest time of both formats. A receiver refuses a whole batch because of one later time. */
const latest = 2n ** 63n - 1n;

function nanosOf(at: string): string {
  const nanos = BigInt(Date.parse(at)) * 1_000_000n;
  return `${nanos < latest ? nanos : latest}`;
}

/**
 * Credentials in the address become a header: `fetch` rejects them in URLs, and they must not be
 * logged.
 */
function addressOf(endpoint: string, path: string): Pick<LogReceiver, 'url' | 'headers'> {
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
  ...addressOf(endpoint, '/loki/api/v1/push'),
  write: (lines) => ({
    streams: [...byStream(lines)].map(([stream, mine]) => ({
      stream: { service_name: 'slipway-node', stream },
      values: mine.map(({ at, line, seq, ids }) => [nanosOf(at), line, { ...ids, seq: String(seq) }]),
    })),
  }),
});

const attribute = ([key, stringValue]: [string, string]) => ({ key, value: { stringValue } });
const info = { severityNumber: 9, severityText: 'INFO' };

export const otlpReceiver = (endpoint: string): LogReceiver => ({
  name: 'otlp',
  ...addressOf(endpoint, '/v1/logs'),
  write: (lines) => ({
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
  }),
});
