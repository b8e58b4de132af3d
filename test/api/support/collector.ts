/** A small OTLP collector over HTTP and JSON that keeps the received spans in memory. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  status?: { code: number; message: string };
  attributes: Record<string, string | undefined>;
}

export interface Collector {
  url: string;
  spans: ReceivedSpan[];
  resources: Record<string, string>[];
  /** The headers of each request. */
  headers: IncomingHttpHeaders[];
  stop(): Promise<void>;
}

type Attribute = { key: string; value: Record<string, string> };
const readAttributes = (attributes: Attribute[]) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, String(Object.values(value)[0])]));

export async function startCollector(): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  const resources: Record<string, string>[] = [];
  const headers: IncomingHttpHeaders[] = [];
  const server = createServer(async (request, response) => {
    headers.push(request.headers);
    let text = '';
    for await (const chunk of request) text += chunk;
    const isOtlp = request.method === 'POST' && request.url === '/v1/traces';
    if (isOtlp)
      for (const { resource, scopeSpans } of JSON.parse(text).resourceSpans) {
        resources.push(readAttributes(resource.attributes));
        for (const scope of scopeSpans)
          for (const { attributes, ...span } of scope.spans)
            spans.push({ ...span, attributes: readAttributes(attributes) });
      }
    response.writeHead(isOtlp ? 200 : 404, { 'content-type': 'application/json' });
    response.end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    resources,
    headers,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
