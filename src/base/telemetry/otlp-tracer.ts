/**
 * Sends spans to a collector in batches, by OTLP over HTTP as JSON. No caller waits for the
 * collector: the queue is limited, a refused batch is dropped, and the log reports how many spans
 * were lost.
 */
import { type Clock, pause } from '../clock.ts';
import type { Redactor } from '../redaction/redact.ts';
import type { OtlpHeaders } from '../settings/otlp-headers.ts';
import type { Log } from './log.ts';
import type { Span, Tracer } from './trace.ts';

const maxQueued = 5_000;
const batchSize = 512;
const everyMs = 1_000;
const requestTimeoutMs = 5_000;
const kinds = { internal: 1, server: 2 } as const;
const failedStatus = 2;

export interface OtlpParts {
  /** The collector's URL, like http://localhost:4318; `/v1/traces` is appended. */
  endpoint: string;
  /** Sent with each request, and never logged. */
  headers?: OtlpHeaders;
  version: string;
  /** The service name; the server's by default. */
  service?: string;
  /** The id of the replica, or of the agent's instance. */
  replica_id: string;
  clock: Clock;
  log: Pick<Log, 'warn'>;
  redact: Redactor;
}

const nanos = (ms: number) => `${BigInt(Math.round(ms * 1000)) * 1000n}`;

function anyValue(value: string | number | boolean) {
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'string') return { stringValue: value };
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

const attributesOf = (attributes: Span['attributes']) =>
  Object.entries(attributes).flatMap(([key, value]) =>
    value === null || value === undefined ? [] : [{ key, value: anyValue(value) }],
  );

const spanWire = (span: Span) => ({
  traceId: span.trace_id,
  spanId: span.span_id,
  ...(span.parent_span_id && { parentSpanId: span.parent_span_id }),
  name: span.name,
  kind: kinds[span.kind],
  startTimeUnixNano: nanos(span.start_ms),
  endTimeUnixNano: nanos(span.end_ms),
  attributes: attributesOf(span.attributes),
  ...(span.error !== null && { status: { code: failedStatus, message: span.error } }),
});

export function otlpTracer({
  endpoint,
  headers: ownHeaders = {},
  version,
  service = 'slipway',
  replica_id,
  clock,
  log,
  redact,
}: OtlpParts): Tracer {
  const url = `${endpoint.replace(/\/+$/, '')}/v1/traces`;
  const resource = attributesOf({
    'service.name': service,
    'service.version': version,
    'service.instance.id': replica_id,
  });
  const queue: Span[] = [];
  const stopController = new AbortController();
  let lost = 0;

  const send = async (spans: Span[]) => {
    const scopeSpans = [{ scope: { name: 'slipway', version }, spans: spans.map(spanWire) }];
    const resourceSpans = [{ resource: { attributes: resource }, scopeSpans }];
    const body = redact.json(JSON.stringify({ resourceSpans }));
    const timeout = new AbortController();
    const cancel = clock.after(requestTimeoutMs, () => timeout.abort());
    try {
      const headers = { ...ownHeaders, 'content-type': 'application/json' };
      const answer = await fetch(url, { method: 'POST', headers, body, signal: timeout.signal });
      await answer.arrayBuffer();
      if (!answer.ok) throw new Error(`the collector answered ${answer.status}`);
    } finally {
      cancel();
    }
  };
  const flush = async () => {
    while (queue.length > 0) {
      const batch = queue.splice(0, batchSize);
      try {
        await send(batch);
      } catch (error) {
        lost += batch.length;
        log.warn({ error, url, lost }, 'spans could not be sent to the collector and are lost');
        return;
      }
    }
  };
  const run = async () => {
    while (!stopController.signal.aborted) {
      await pause(clock, everyMs, stopController.signal);
      await flush();
    }
  };
  const done = run();
  return {
    record(spans) {
      const room = maxQueued - queue.length;
      queue.push(...spans.slice(0, room));
      lost += Math.max(0, spans.length - room);
    },
    async stop() {
      stopController.abort();
      await done;
    },
  };
}
