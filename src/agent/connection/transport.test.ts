import { createServer as createTcpServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { routes } from '../../contract/routes.ts';
import { type ProtocolServer, problem, protocolServer } from '../testing/protocol-server.ts';
import { isTransient } from './call-failure.ts';
import { agentCalls } from './control-plane.ts';
import { readAcknowledged } from './replies.ts';
import { serverTime } from './server-time.ts';
import { streamPath } from './stream.ts';
import { transport } from './transport.ts';

let server: ProtocolServer;
beforeEach(async () => {
  server = await protocolServer();
});
afterEach(() => server.stop());

async function failureAt(url: string, timeout_ms = 5_000, answer_timeout_ms?: number) {
  const http = transport(url, systemClock, serverTime(systemClock));
  const call = { name: 'agent-boot', method: 'POST', path: '/v1/agent/boot', headers: {}, body: '{}' } as const;
  const answer = await http.call({ ...call, timeout_ms, answer_timeout_ms }, readAcknowledged);
  http.close();
  if (answer.ok) throw new Error('the call was expected to fail');
  return answer.failure;
}

test('names and paths of the calls match the route table', () => {
  for (const [name, path] of Object.entries({ ...agentCalls, 'agent-stream': streamPath })) {
    expect(routes).toHaveProperty([name, 'path'], path);
  }
});

test('reports an unresolvable name in layer dns', async () => {
  expect(await failureAt('http://nowhere.invalid')).toMatchObject({
    owner_layer: 'transport',
    layer: 'dns',
    code: 'dns_unresolved',
    status: null,
  });
});

test('reports a closed port in layer tcp', async () => {
  await server.stop();
  expect(await failureAt(server.url)).toMatchObject({ owner_layer: 'transport', layer: 'tcp', code: 'tcp_refused' });
  await server.start();
});

test('reports a port without TLS in layer tls', async () => {
  expect(await failureAt(server.url.replace('http:', 'https:'))).toMatchObject({ layer: 'tls', code: 'tls_failed' });
});

test('reports another HTTP service in layer ingress as transient, for any status', async () => {
  for (const status of [200, 302, 401, 409, 502]) {
    server.override(() => ({ status, body: '<html>sign in</html>', type: 'text/html' }));
    const failure = await failureAt(server.url);
    expect(failure).toMatchObject({ layer: 'ingress', status });
    expect(isTransient(failure)).toBe(true);
  }
});

test('reports a port of another protocol in layer ingress', async () => {
  const sockets: Socket[] = [];
  const foreignServer = createTcpServer((socket) => {
    sockets.push(socket);
    socket.end('SSH-2.0-OpenSSH\r\n');
  });
  await new Promise<void>((resolve) => foreignServer.listen(0, '127.0.0.1', resolve));
  const address = foreignServer.address();
  if (!address || typeof address === 'string') throw new Error('no port');
  expect(await failureAt(`http://127.0.0.1:${address.port}`)).toMatchObject({ layer: 'ingress' });
  for (const socket of sockets) socket.destroy();
  foreignServer.close();
});

test('reports no_answer for a server that accepts the connection and stays silent', async () => {
  server.override(() => 'hang');
  expect(await failureAt(server.url, 100)).toMatchObject({ layer: 'control_plane', code: 'no_answer' });
});

test('starts the answer timeout when the connection is established and secured', async () => {
  server.override(() => 'hang');
  expect(await failureAt(server.url, 60_000, 100)).toMatchObject({ detail: 'no answer within 0.1 s' });
  const silentServer = createTcpServer((socket) => socket.on('error', () => {}).resume());
  await new Promise<void>((resolve) => silentServer.listen(0, '127.0.0.1', resolve));
  const address = silentServer.address();
  if (!address || typeof address === 'string') throw new Error('no port');
  const failure = await failureAt(`https://127.0.0.1:${address.port}`, 1_000, 100);
  expect(failure).toMatchObject({ detail: 'no answer within 1 s' });
  silentServer.close();
});

test("takes code, most specific layer and retry time from the server's problem", async () => {
  const deadline_at = '2026-01-01T00:00:00Z';
  server.override(() => problem('enrollment_pending', { retry_after_seconds: 2, deadline_at }));
  const pending = await failureAt(server.url);
  expect(pending).toMatchObject({
    layer: 'credential',
    code: 'enrollment_pending',
    retry_after_seconds: 2,
    deadline_at,
  });
  expect(isTransient(pending)).toBe(true);
  server.override(() => problem('store_unavailable'));
  expect(await failureAt(server.url)).toMatchObject({ layer: 'store', status: 503 });
  server.override(() => problem('instance_fenced'));
  expect(isTransient(await failureAt(server.url))).toBe(false);
});

test('repeats a call once if the server closed the kept-alive connection', async () => {
  const http = transport(server.url, systemClock, serverTime(systemClock));
  const headers = { authorization: `Bearer ${server.credential}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ stages: [] });
  const call = {
    name: 'agent-boot',
    method: 'POST',
    path: '/v1/agent/boot',
    headers,
    body,
    timeout_ms: 5_000,
  } as const;
  expect((await http.call(call, readAcknowledged)).ok).toBe(true);
  let resets = 1;
  server.override(() => (resets-- > 0 ? 'reset' : null));
  expect((await http.call(call, readAcknowledged)).ok).toBe(true);
  http.close();
});

describe('an unanswered call', () => {
  const bootCalls = () => server.requests.filter(({ path }) => path === '/v1/agent/boot').length;
  const boot = async (timeout_ms: number) => {
    const http = transport(server.url, systemClock, serverTime(systemClock));
    const headers = { authorization: `Bearer ${server.credential}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ stages: [] });
    const call = { name: 'agent-boot', method: 'POST', path: '/v1/agent/boot', headers, body, timeout_ms } as const;
    const answer = await http.call(call, readAcknowledged);
    http.close();
    return answer;
  };

  const answerChecks = (replyTo: (check: number) => 'hang' | 'reset' | null) => {
    let checks = 0;
    server.override(({ path }) => {
      if (path === '/healthz') return replyTo(++checks) ?? { status: 200, body: {} };
      return bootCalls() === 1 ? 'hang' : null;
    });
  };

  test('is repeated when a dead network path works again', async () => {
    answerChecks((check) => (check <= 2 ? 'hang' : null));
    expect((await boot(60_000)).ok).toBe(true);
    expect(bootCalls()).toBe(2);
  });

  test('is repeated after a broken connection', async () => {
    answerChecks((check) => (check === 1 ? 'reset' : null));
    expect((await boot(60_000)).ok).toBe(true);
    expect(bootCalls()).toBe(2);
  });

  test('is not repeated if a single check is slow', async () => {
    answerChecks((check) => (check === 1 ? 'hang' : null));
    expect(await boot(9_000)).toMatchObject({ ok: false, failure: { code: 'no_answer' } });
    expect(bootCalls()).toBe(1);
  });

  test('is not repeated while the network works', async () => {
    server.override(({ path }) => (path === '/healthz' ? { status: 200, body: {} } : 'hang'));
    expect(await boot(6_000)).toMatchObject({ ok: false, failure: { code: 'no_answer' } });
    expect(bootCalls()).toBe(1);
  });
});
