/**
 * A scripted HTTP server for tests of the CLI. It answers from memory and has an event stream that
 * can be resumed. A test can publish changes, refuse calls and restart the server on its port.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { addresses } from '../../contract/addresses.generated.ts';
import type { Allocation } from '../../contract/allocation.ts';
import type { Found } from '../../contract/fleet/find.ts';
import type { Node } from '../../contract/node.ts';
import type { Operation } from '../../contract/operation.ts';
import type { OperationName } from '../../contract/routes.ts';
import type { WireEvent } from '../connection/wire-event.ts';
import { sampleProblem } from './samples.ts';

export const testToken = 'test-token';

export interface Call {
  name: OperationName;
  params: Record<string, string>;
  query: Record<string, string>;
  headers: IncomingMessage['headers'];
  body: unknown;
}

export interface Answer {
  status?: number;
  body: unknown;
  type?: string;
}

type Handler = (call: Call) => Answer | Promise<Answer>;

interface PublishedEvent {
  id: string;
  event: string;
  data: unknown;
}

export class ScriptedServer {
  readonly calls: Call[] = [];
  readonly nodes = new Map<string, Node>();
  readonly allocations = new Map<string, Allocation>();
  readonly operations = new Map<string, Operation>();
  private readonly handlers = new Map<OperationName, Handler>();
  private readonly published: PublishedEvent[] = [];
  private readonly streams = new Set<ServerResponse>();
  private server: Server = createServer();
  private port = 0;

  async start(): Promise<this> {
    this.server = createServer((request, response) => {
      this.handle(request, response).catch((error: unknown) =>
        response.destroy(error instanceof Error ? error : undefined),
      );
    });
    this.server.listen(this.port, '127.0.0.1');
    await once(this.server, 'listening');
    this.port = (this.server.address() as AddressInfo).port;
    return this;
  }

  /** Cuts every connection at once, like a killed process. */
  async stop(): Promise<void> {
    this.server.close();
    this.server.closeAllConnections();
    this.streams.clear();
    if (this.server.listening) await once(this.server, 'close');
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  on(name: OperationName, handler: Handler): void {
    this.handlers.set(name, handler);
  }

  refuse(name: OperationName, problem: Parameters<typeof sampleProblem>[0] = {}): void {
    const body = sampleProblem(problem);
    this.on(name, () => ({ status: body.status, body, type: 'application/problem+json' }));
  }

  publish(change: WireEvent): void {
    if (change.kind === 'node') this.nodes.set(change.node.node_id, change.node);
    if (change.kind === 'allocation') this.allocations.set(change.allocation.allocation_id, change.allocation);
    if (change.kind === 'operation') this.operations.set(change.operation.workflow_id, change.operation);
    const data =
      change.kind === 'node' ? change.node : change.kind === 'allocation' ? change.allocation : change.operation;
    const event = { id: `${this.published.length + 1}-1`, event: change.kind, data };
    this.published.push(event);
    for (const stream of this.streams) sendEvent(stream, event);
  }

  callsOf(name: OperationName): Call[] {
    return this.calls.filter((call) => call.name === name);
  }

  private async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const call = await readCall(request);
    if (!call) return sendAnswer(response, problem('not_found', 404));
    this.calls.push(call);
    if (call.headers.authorization === undefined) return sendAnswer(response, problem('token_missing', 401));
    if (call.headers.authorization !== `Bearer ${testToken}`)
      return sendAnswer(response, problem('token_unknown', 401));
    const handler = this.handlers.get(call.name);
    if (handler) return sendAnswer(response, await handler(call));
    if (call.name === 'stream-open') return this.stream(call, response);
    sendAnswer(response, this.answerFromMemory(call));
  }

  private stream(call: Call, response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(': welcome\n\n');
    const last = call.headers['last-event-id'];
    const firstToSend =
      last === undefined ? this.published.length : this.published.findIndex(({ id }) => id === last) + 1;
    for (const event of this.published.slice(firstToSend)) sendEvent(response, event);
    this.streams.add(response);
    response.on('close', () => this.streams.delete(response));
  }

  private answerFromMemory({ name, params, query }: Call): Answer {
    const id = params.id ?? '';
    const answerWith = (item: unknown, code: string) => (item === undefined ? problem(code, 404) : { body: item });
    const page = (items: Iterable<{ status: string; pool?: string }>) => ({
      body: {
        items: [...items].filter(
          (item) => (!query.status || item.status === query.status) && (!query.pool || item.pool === query.pool),
        ),
        next_cursor: null,
      },
    });
    if (name === 'node-get') return answerWith(this.nodes.get(id), 'node_not_found');
    if (name === 'allocation-get') return answerWith(this.allocations.get(id), 'allocation_not_found');
    if (name === 'operation-get') return answerWith(this.operations.get(id), 'operation_not_found');
    if (name === 'node-list') return page(this.nodes.values());
    if (name === 'allocation-list') return page(this.allocations.values());
    if (name === 'operation-list') return page(this.operations.values());
    if (name === 'thing-find') return { body: this.findThing(query.id ?? '') };
    return problem('not_found', 404);
  }

  private findThing(id: string): Found {
    const items = [...this.nodes.values()]
      .filter(({ name, node_instance_id }) => name === id || node_instance_id === id)
      .map(({ node_id, name, status, allocation_id, node_instance_id }) => ({
        ...{ kind: 'node' as const, id: node_id, name, status, over: status === 'retired' },
        ...{ node_id, allocation_id, node_instance_id: node_instance_id === id ? id : null },
      }));
    const [only] = items;
    const meant = only && { kind: only.kind, id: only.id, node_instance_id: only.node_instance_id };
    return { known: items.length > 0, as_request: false, items, meant: meant ?? null, requests: [] };
  }
}

const problem = (code: string, status: number): Answer => ({
  status,
  body: sampleProblem({ code, status, title: code, detail: `${code} in the test` }),
  type: 'application/problem+json',
});

const sendEvent = (response: ServerResponse, { id, event, data }: PublishedEvent) =>
  response.write(`id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);

function sendAnswer(response: ServerResponse, { status = 200, body, type = 'application/json' }: Answer): void {
  response.writeHead(status, status === 204 ? {} : { 'content-type': type });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

const patterns = Object.entries(addresses).map(([name, { method, path }]) => ({
  name: name as OperationName,
  method,
  pattern: new RegExp(`^${path.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`),
}));

async function readCall(request: IncomingMessage): Promise<Call | null> {
  const url = new URL(request.url ?? '', 'http://test');
  let text = '';
  for await (const chunk of request) text += chunk;
  for (const { name, method, pattern } of patterns) {
    const match = method === request.method ? pattern.exec(url.pathname) : null;
    if (!match) continue;
    const query = Object.fromEntries(url.searchParams);
    const body: unknown = text === '' ? undefined : JSON.parse(text);
    return { name, params: { ...match.groups }, query, headers: request.headers, body };
  }
  return null;
}
