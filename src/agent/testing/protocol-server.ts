/** A control plane that speaks only the agent protocol; tests script its replies one by one. */
import { generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { moment, systemClock } from '../../base/clock.ts';
import type {
  Heartbeat,
  PrerequisiteReport,
  RegisterReply,
  RegisterRequest,
  ShippedLine,
  SignedTask,
  TaskResult,
} from '../../contract/agent/agent.ts';
import { canonicalJson } from '../../contract/canonical-json.ts';
import { type ErrorCode, errorCatalogue } from '../../contract/errors/errors.ts';
import type { BootStage } from '../../contract/node.ts';
import type { Fact } from '../spool/fact-box.ts';

export interface Heard {
  method: string;
  path: string;
  /** The query string, without its question mark. */
  query: string;
  headers: IncomingMessage['headers'];
  body: unknown;
}

export type Said = { status: number; body: unknown; type?: string };
/** Null: the default reply. */
export type Override = (heard: Heard) => Said | 'hang' | 'reset' | null;

export interface ProtocolServer {
  url: string;
  heard: Heard[];
  registrations: RegisterRequest[];
  beats: Heartbeat[];
  /** As a durable store would keep them: each number once. */
  lines: ShippedLine[];
  stages: BootStage[];
  facts: Fact[];
  /** One entry per report. */
  prerequisites: PrerequisiteReport['results'][];
  /** Sent with the registration reply; undefined: omitted. */
  requires: RegisterReply['requires'];
  results: Map<string, TaskResult>;
  progress: string[];
  node_status: string;
  interval_seconds: number;
  /** Open streams, and the heartbeats that came by one. */
  streams: WebSocket[];
  streamed: Heartbeat[];
  /** The problem with which a stream is refused; null: it is accepted. */
  refuse_stream: Said | null;
  /** Behaves like an earlier version, which does not know `idle`. */
  refuse_idle: boolean;
  credential: string;
  /**
   * Creates, signs and queues a task. `lease_seconds` and the fields of `for` go into the task;
   * `change` is applied after signing.
   */
  queue(type: string, params?: Record<string, unknown>, change?: (task: SignedTask) => SignedTask): string;
  /** Delivers the last task again, as if its lease had expired. */
  repeatLast(): void;
  override(by: Override): void;
  stop(): Promise<void>;
  /** Restarts on the same port. */
  start(): Promise<void>;
}

export const problem = (code: ErrorCode, extras: Record<string, unknown> = {}): Said => {
  const { status, title, owner_layer, cause } = errorCatalogue[code];
  const detail_layer =
    'detail_layer' in errorCatalogue[code] ? { detail_layer: errorCatalogue[code].detail_layer } : {};
  const body = { type: `/docs/errors#${code}`, title, status, code, owner_layer, ...detail_layer, detail: cause };
  return { status, body: { ...body, correlation_id: 'c', ...extras }, type: 'application/problem+json' };
};

const ok = (body: unknown, status = 200): Said => ({ status, body });

/**
 * A different instance for every test file: agents of equal instances would end each other's
 * processes.
 */
export const node = { node_id: 'node_1', node_instance_id: `inst_${randomUUID()}` };
const kid = 'key-1';

export async function protocolServer(): Promise<ProtocolServer> {
  const keys = generateKeyPairSync('ed25519');
  const task_keys = [{ kid, public_key: keys.publicKey.export({ type: 'spki', format: 'der' }).toString('base64') }];
  const queued: SignedTask[] = [];
  const waiting: ((task: SignedTask) => void)[] = [];
  let override: Override = () => null;
  let server: Server;
  let port = 0;
  let tasks = 0;

  let last: SignedTask | null = null;
  const offer = (task: SignedTask) => {
    last = task;
    const taker = waiting.shift();
    if (taker) taker(task);
    else queued.push(task);
  };

  const self: ProtocolServer = {
    url: '',
    heard: [],
    registrations: [],
    beats: [],
    lines: [],
    stages: [],
    facts: [],
    prerequisites: [],
    requires: undefined,
    results: new Map(),
    progress: [],
    node_status: 'starting',
    interval_seconds: 0.2,
    streams: [],
    streamed: [],
    refuse_stream: null,
    refuse_idle: false,
    credential: 'credential-1',
    queue(type, params = {}, change = (task) => task) {
      tasks += 1;
      offer(change(signedTask(keys.privateKey, `task_${tasks}`, type, params)));
      return `task_${tasks}`;
    },
    repeatLast() {
      if (last) offer(last);
    },
    override(by) {
      override = by;
    },
    async stop() {
      for (const stream of self.streams) stream.terminate();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
    start: () =>
      new Promise((resolve) => {
        server = createServer((request, response) => void serve(request, response));
        server.on('upgrade', upgrade);
        server.listen(port, '127.0.0.1', () => {
          port = (server.address() as AddressInfo).port;
          self.url = `http://127.0.0.1:${port}`;
          resolve();
        });
      }),
  };

  const usual: Record<string, (heard: Heard, response: ServerResponse) => Said | Promise<Said>> = {
    'POST /v1/agent/register': ({ body, headers }) => {
      const { authorization } = headers;
      if (authorization && authorization !== `Bearer ${self.credential}`) return problem('credential_unknown');
      self.registrations.push(body as RegisterRequest);
      self.stages.push(...((body as RegisterRequest).boot?.stages ?? []));
      const { interval_seconds: heartbeat_interval_seconds, requires } = self;
      const log_acknowledged_seq = self.lines.at(-1)?.seq ?? 0;
      const known = { log_acknowledged_seq, heartbeat_interval_seconds, requires };
      const reply = { ...node, ...known, task_keys, deadline_at: null };
      return authorization ? ok(reply) : ok({ ...reply, credential: self.credential }, 201);
    },
    'POST /v1/agent/heartbeat': ({ body }) => {
      self.beats.push(body as Heartbeat);
      const { node_status, interval_seconds } = self;
      return ok({ node_status, heartbeat_interval_seconds: interval_seconds, tasks_waiting: queued.length });
    },
    'GET /v1/agent/tasks/next': ({ query }, response) => {
      if (self.refuse_idle && query.includes('idle')) return problem('invalid_request');
      const task = queued.shift();
      if (task) return ok({ task });
      return new Promise((resolve) => {
        const take = (next: SignedTask) => resolve(ok({ task: next }));
        waiting.push(take);
        response.on('close', () => waiting.splice(waiting.indexOf(take), waiting.includes(take) ? 1 : 0));
      });
    },
    'POST /v1/agent/logs': ({ body }) => {
      for (const line of body as ShippedLine[]) if (line.seq > (self.lines.at(-1)?.seq ?? 0)) self.lines.push(line);
      return ok({ acknowledged_seq: self.lines.at(-1)?.seq ?? 0 });
    },
    'POST /v1/agent/boot': ({ body }) => {
      self.stages.push(...(body as { stages: BootStage[] }).stages);
      return ok({ ok: true });
    },
    'POST /v1/agent/prerequisites': ({ body }) => {
      self.prerequisites.push((body as PrerequisiteReport).results);
      return ok({ ok: true });
    },
    'POST /v1/agent/evidence': ({ body }) => {
      self.facts.push(...(body as { facts: Fact[] }).facts);
      return ok({ ok: true });
    },
  };

  const answer = (heard: Heard, response: ServerResponse): Said | Promise<Said> => {
    const registers = heard.path === '/v1/agent/register';
    if (!registers && heard.headers.authorization !== `Bearer ${self.credential}`) return problem('credential_unknown');
    const ofTask = /^\/v1\/agent\/tasks\/([^/]+)\/(progress|result)$/.exec(heard.path);
    if (ofTask?.[2] === 'progress') {
      self.progress.push(ofTask[1] ?? '');
      return ok({ lease_seconds: 1 });
    }
    if (ofTask) {
      self.results.set(ofTask[1] ?? '', heard.body as TaskResult);
      return ok({ ok: true });
    }
    return usual[`${heard.method} ${heard.path}`]?.(heard, response) ?? problem('not_found');
  };

  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    const heard = await hear(request);
    self.heard.push(heard);
    const scripted = override(heard);
    if (scripted === 'hang') return;
    if (scripted === 'reset') return void request.socket.destroy();
    const { status, body, type = 'application/json' } = scripted ?? (await answer(heard, response));
    response.writeHead(status, { 'content-type': type });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };

  const streamed = (socket: WebSocket, frame: { seq?: number; tasks?: true; idle?: true } & Heartbeat) => {
    const say = (said: object) => socket.send(JSON.stringify(said));
    if (frame.idle && self.refuse_idle) return say({ problem: problem('invalid_request').body });
    if (frame.tasks) {
      const give = (task: SignedTask) => say({ task });
      const task = queued.shift();
      if (task) give(task);
      else waiting.push(give);
      socket.once('close', () => waiting.splice(waiting.indexOf(give), waiting.includes(give) ? 1 : 0));
      return;
    }
    const { seq, ...beat } = frame;
    self.beats.push(beat);
    self.streamed.push(beat);
    const { node_status, interval_seconds: heartbeat_interval_seconds } = self;
    say({ seq, node_status, heartbeat_interval_seconds, tasks_waiting: queued.length });
  };
  const accepting = new WebSocketServer({ noServer: true });
  const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const known = request.headers.authorization === `Bearer ${self.credential}`;
    const refused = self.refuse_stream ?? (known ? null : problem('credential_unknown'));
    if (refused) {
      const body = JSON.stringify(refused.body);
      socket.end(`HTTP/1.1 ${refused.status} no\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
      return;
    }
    accepting.handleUpgrade(request, socket, head, (stream) => {
      self.streams.push(stream);
      stream.on('close', () => self.streams.splice(self.streams.indexOf(stream), 1));
      stream.on('message', (data) => streamed(stream, JSON.parse(String(data))));
    });
  };

  await self.start();
  return self;
}

async function hear(request: IncomingMessage): Promise<Heard> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString('utf8');
  const lines = request.headers['content-type'] === 'application/x-ndjson';
  const parsed = lines
    ? text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line))
    : text
      ? JSON.parse(text)
      : null;
  const [path = '', query = ''] = (request.url ?? '').split('?');
  return { method: request.method ?? '', path, query, headers: request.headers, body: parsed };
}

/** Signs any task with the server's key. */
export function signedTask(key: KeyObject, task_id: string, type: string, params: Record<string, unknown>): SignedTask {
  const { for: changes = {}, lease_seconds = 30, ...rest } = params;
  const task = {
    ...{ task_id, type, params: rest, ...node, lease_seconds, kid },
    correlation_id: 'correlation-of-task',
    allocation_id: 'alloc_1',
    workflow_id: 'op_1',
    expires_at: moment(systemClock.nowMs() + 60_000).toISOString(),
    ...(changes as Partial<SignedTask>),
  } as Omit<SignedTask, 'signature'>;
  return { ...task, signature: sign(null, Buffer.from(canonicalJson(task)), key).toString('base64') };
}
