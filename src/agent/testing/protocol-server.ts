/** A test server that implements only the agent protocol. Tests can override each reply. */
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

export interface ReceivedRequest {
  method: string;
  path: string;
  /** The query string without the question mark. */
  query: string;
  headers: IncomingMessage['headers'];
  body: unknown;
}

export type Reply = { status: number; body: unknown; type?: string };
/** Returns null for the default reply. */
export type Override = (request: ReceivedRequest) => Reply | 'hang' | 'reset' | null;

export interface ProtocolServer {
  url: string;
  /** Every request, in order. */
  requests: ReceivedRequest[];
  registrations: RegisterRequest[];
  beats: Heartbeat[];
  /** The log lines, each sequence number once. */
  lines: ShippedLine[];
  stages: BootStage[];
  facts: Fact[];
  /** The results of each prerequisite report. */
  prerequisites: PrerequisiteReport['results'][];
  /** Part of the registration reply, unless undefined. */
  requires: RegisterReply['requires'];
  results: Map<string, TaskResult>;
  progress: string[];
  node_status: string;
  interval_seconds: number;
  /** The open streams. */
  streams: WebSocket[];
  /** The heartbeats that arrived over a stream. */
  streamedBeats: Heartbeat[];
  /** The reply that refuses a stream. Null accepts streams. */
  stream_refusal: Reply | null;
  /** Refuses the field `idle`, like an earlier version of the server. */
  refuses_idle: boolean;
  credential: string;
  /**
   * Creates, signs and queues a task, and returns its id. `lease_seconds` and the fields of `for`
   * in `params` go into the task itself. `change` is applied after signing.
   */
  queue(type: string, params?: Record<string, unknown>, change?: (task: SignedTask) => SignedTask): string;
  /** Queues the last task again, as if its lease had expired. */
  repeatLast(): void;
  override(newOverride: Override): void;
  stop(): Promise<void>;
  /** Starts the server again on the same port. */
  start(): Promise<void>;
}

export const problem = (code: ErrorCode, extras: Record<string, unknown> = {}): Reply => {
  const { status, title, owner_layer, cause } = errorCatalogue[code];
  const detail_layer =
    'detail_layer' in errorCatalogue[code] ? { detail_layer: errorCatalogue[code].detail_layer } : {};
  const body = { type: `/docs/errors#${code}`, title, status, code, owner_layer, ...detail_layer, detail: cause };
  return { status, body: { ...body, correlation_id: 'c', ...extras }, type: 'application/problem+json' };
};

const ok = (body: unknown, status = 200): Reply => ({ status, body });

/**
 * Each test file has a different instance, because agents of the same instance would end each
 * other's processes.
 */
export const node = { node_id: 'node_1', node_instance_id: `inst_${randomUUID()}` };
const kid = 'key-1';

export async function protocolServer(): Promise<ProtocolServer> {
  const keys = generateKeyPairSync('ed25519');
  const task_keys = [{ kid, public_key: keys.publicKey.export({ type: 'spki', format: 'der' }).toString('base64') }];
  const queued: SignedTask[] = [];
  /** Requests that wait for a task. */
  const waiting: ((task: SignedTask) => void)[] = [];
  let override: Override = () => null;
  let server: Server;
  let port = 0;
  let taskCount = 0;

  let lastTask: SignedTask | null = null;
  const offer = (task: SignedTask) => {
    lastTask = task;
    const deliver = waiting.shift();
    if (deliver) deliver(task);
    else queued.push(task);
  };

  const self: ProtocolServer = {
    url: '',
    requests: [],
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
    streamedBeats: [],
    stream_refusal: null,
    refuses_idle: false,
    credential: 'credential-1',
    queue(type, params = {}, change = (task) => task) {
      taskCount += 1;
      offer(change(signedTask(keys.privateKey, `task_${taskCount}`, type, params)));
      return `task_${taskCount}`;
    },
    repeatLast() {
      if (lastTask) offer(lastTask);
    },
    override(newOverride) {
      override = newOverride;
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

  const defaultReplies: Record<string, (request: ReceivedRequest, response: ServerResponse) => Reply | Promise<Reply>> =
    {
      'POST /v1/agent/register': ({ body, headers }) => {
        const { authorization } = headers;
        if (authorization && authorization !== `Bearer ${self.credential}`) return problem('credential_unknown');
        self.registrations.push(body as RegisterRequest);
        self.stages.push(...((body as RegisterRequest).boot?.stages ?? []));
        const { interval_seconds: heartbeat_interval_seconds, requires } = self;
        const log_acknowledged_seq = self.lines.at(-1)?.seq ?? 0;
        const settings = { log_acknowledged_seq, heartbeat_interval_seconds, requires };
        const reply = { ...node, ...settings, task_keys, deadline_at: null };
        return authorization ? ok(reply) : ok({ ...reply, credential: self.credential }, 201);
      },
      'POST /v1/agent/heartbeat': ({ body }) => {
        self.beats.push(body as Heartbeat);
        const { node_status, interval_seconds } = self;
        return ok({ node_status, heartbeat_interval_seconds: interval_seconds, tasks_waiting: queued.length });
      },
      'GET /v1/agent/tasks/next': ({ query }, response) => {
        if (self.refuses_idle && query.includes('idle')) return problem('invalid_request');
        const task = queued.shift();
        if (task) return ok({ task });
        return new Promise((resolve) => {
          const deliver = (next: SignedTask) => resolve(ok({ task: next }));
          waiting.push(deliver);
          response.on('close', () => waiting.splice(waiting.indexOf(deliver), waiting.includes(deliver) ? 1 : 0));
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

  const answer = (request: ReceivedRequest, response: ServerResponse): Reply | Promise<Reply> => {
    const { method, path, headers, body } = request;
    const isRegistration = path === '/v1/agent/register';
    if (!isRegistration && headers.authorization !== `Bearer ${self.credential}`) return problem('credential_unknown');
    const taskPath = /^\/v1\/agent\/tasks\/([^/]+)\/(progress|result)$/.exec(path);
    if (taskPath?.[2] === 'progress') {
      self.progress.push(taskPath[1] ?? '');
      return ok({ lease_seconds: 1 });
    }
    if (taskPath) {
      self.results.set(taskPath[1] ?? '', body as TaskResult);
      return ok({ ok: true });
    }
    return defaultReplies[`${method} ${path}`]?.(request, response) ?? problem('not_found');
  };

  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    const received = await readRequest(request);
    self.requests.push(received);
    const overridden = override(received);
    if (overridden === 'hang') return;
    if (overridden === 'reset') return void request.socket.destroy();
    const { status, body, type = 'application/json' } = overridden ?? (await answer(received, response));
    response.writeHead(status, { 'content-type': type });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };

  const answerFrame = (socket: WebSocket, frame: { seq?: number; tasks?: true; idle?: true } & Heartbeat) => {
    const send = (message: object) => socket.send(JSON.stringify(message));
    if (frame.idle && self.refuses_idle) return send({ problem: problem('invalid_request').body });
    if (frame.tasks) {
      const deliver = (task: SignedTask) => send({ task });
      const task = queued.shift();
      if (task) deliver(task);
      else waiting.push(deliver);
      socket.once('close', () => waiting.splice(waiting.indexOf(deliver), waiting.includes(deliver) ? 1 : 0));
      return;
    }
    const { seq, ...beat } = frame;
    self.beats.push(beat);
    self.streamedBeats.push(beat);
    const { node_status, interval_seconds: heartbeat_interval_seconds } = self;
    send({ seq, node_status, heartbeat_interval_seconds, tasks_waiting: queued.length });
  };
  const streamServer = new WebSocketServer({ noServer: true });
  const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const isKnown = request.headers.authorization === `Bearer ${self.credential}`;
    const refusal = self.stream_refusal ?? (isKnown ? null : problem('credential_unknown'));
    if (refusal) {
      const body = JSON.stringify(refusal.body);
      socket.end(`HTTP/1.1 ${refusal.status} no\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
      return;
    }
    streamServer.handleUpgrade(request, socket, head, (stream) => {
      self.streams.push(stream);
      stream.on('close', () => self.streams.splice(self.streams.indexOf(stream), 1));
      stream.on('message', (data) => answerFrame(stream, JSON.parse(String(data))));
    });
  };

  await self.start();
  return self;
}

async function readRequest(request: IncomingMessage): Promise<ReceivedRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString('utf8');
  const isNdjson = request.headers['content-type'] === 'application/x-ndjson';
  const parsed = isNdjson
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

/** Builds a task and signs it with the key. */
export function signedTask(key: KeyObject, task_id: string, type: string, params: Record<string, unknown>): SignedTask {
  const { for: changes = {}, lease_seconds = 30, ...taskParams } = params;
  const task = {
    ...{ task_id, type, params: taskParams, ...node, lease_seconds, kid },
    correlation_id: 'correlation-of-task',
    allocation_id: 'alloc_1',
    workflow_id: 'op_1',
    expires_at: moment(systemClock.nowMs() + 60_000).toISOString(),
    ...(changes as Partial<SignedTask>),
  } as Omit<SignedTask, 'signature'>;
  return { ...task, signature: sign(null, Buffer.from(canonicalJson(task)), key).toString('base64') };
}
