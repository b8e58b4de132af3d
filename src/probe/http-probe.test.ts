import type { IncomingMessage } from 'node:http';
import { describe, expect, test } from 'vitest';
import { freePort } from '../../test/support/free-port.ts';
import { until } from '../../test/support/until.ts';
import { systemClock } from '../base/clock.ts';
import { virtualClock } from '../base/virtual-clock.ts';
import { max_bytes } from './get-address.ts';
import { type ProbeAnswer, type ProbeTarget, probe } from './http-probe.ts';
import { httpServer, type LoopbackServer, rawServer, writeEndlessly } from './testing/loopback-servers.ts';

/** Long enough that a busy machine never reaches it; timeouts are tested with a virtual clock. */
const timeout_seconds = 60;

const targetOf = (port: number, overrides: Partial<ProbeTarget> = {}): ProbeTarget => ({
  base_url: `http://127.0.0.1:${port}`,
  path: '/health',
  timeout_seconds,
  allow_private: true,
  ...overrides,
});

const probePort = (port: number, overrides: Partial<ProbeTarget> = {}) =>
  probe(targetOf(port, overrides), { clock: systemClock });

const waitForClose = (server: LoopbackServer) => until('the probe to close its connection', () => server.open() === 0);

describe('an answer', () => {
  test('with 2xx is ok and has a duration', async () => {
    for (const status of [200, 204, 206, 299]) {
      const server = await httpServer((_request, response) => response.writeHead(status).end());
      const answer = await probePort(server.port);
      expect(answer).toEqual({ ok: true, status, milliseconds: expect.any(Number) });
      await waitForClose(server);
    }
  });

  test('has the duration since the start of the probe', async () => {
    const clock = virtualClock();
    const server = await httpServer(async (_request, response) => {
      await clock.advance(1_500);
      response.end();
    });
    expect(await probe(targetOf(server.port), { clock })).toEqual({ ok: true, status: 200, milliseconds: 1_500 });
    expect(clock.pendingTimers()).toBe(0);
  });

  test('comes from the path below the base URL, without cookies, on a new connection each time', async () => {
    const requests: IncomingMessage[] = [];
    const server = await httpServer((request, response) => {
      requests.push(request);
      response.setHeader('set-cookie', 'a=b');
      response.setHeader('connection', 'keep-alive');
      response.end('{}');
    });
    for (const _ of [1, 2]) {
      const answer = await probePort(server.port, {
        base_url: `http://127.0.0.1:${server.port}/agent`,
        path: '/health?a=1',
      });
      expect(answer.ok).toBe(true);
    }
    for (const request of requests) {
      expect([request.method, request.url]).toEqual(['GET', '/agent/health?a=1']);
      expect(request.headers).toEqual({
        host: `127.0.0.1:${server.port}`,
        accept: '*/*',
        connection: 'close',
        'user-agent': 'slipway-probe',
      });
    }
    expect(server.connections).toHaveLength(2);
    await waitForClose(server);
  });

  test('with any other status is bad_status, and redirects are not followed', async () => {
    const redirectTarget = await httpServer((_request, response) => response.end());
    for (const status of [300, 301, 302, 303, 307, 308, 401, 404, 429, 500, 503]) {
      const server = await httpServer((_request, response) => {
        response.writeHead(status, { location: `http://127.0.0.1:${redirectTarget.port}/` });
        // The response never ends; the status is enough for the probe.
        response.write('moved');
      });
      expect(await probePort(server.port)).toMatchObject({
        ok: false,
        because: 'bad_status',
        detail: expect.stringContaining(`${status}`),
      });
      await waitForClose(server);
    }
    expect(redirectTarget.connections).toEqual([]);
  });

  test('may follow interim statuses, but switching protocols is bad_status', async () => {
    const interim = await httpServer((_request, response) => {
      response.writeProcessing();
      response.writeEarlyHints({ link: '</a>; rel=preload' });
      response.end();
    });
    expect(await probePort(interim.port)).toMatchObject({ ok: true, status: 200 });

    const switching = await rawServer((socket) =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'),
    );
    expect(await probePort(switching.port)).toMatchObject({ ok: false, because: 'bad_status' });
    await waitForClose(switching);
  });
});

describe('the size limit', () => {
  const head = 'HTTP/1.1 200 OK\r\n';
  test.for([
    ['headers', head, 'x-filler: something to read\r\n'],
    ['one header', `${head}x-filler: `, 'x'.repeat(1000)],
    ['a body', `${head}\r\n`, 'x'.repeat(1000)],
    ['a chunked body', `${head}transfer-encoding: chunked\r\n\r\n`, `3e8\r\n${'x'.repeat(1000)}\r\n`],
    ['interim answers', '', 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'],
    ['trailers', `${head}transfer-encoding: chunked\r\n\r\n0\r\n`, 'x-filler: something to read\r\n'],
  ] as const)('ends a probe that receives endless %s', async ([_name, start, piece]) => {
    const server = await rawServer((socket) => {
      socket.write(start);
      writeEndlessly(socket, piece);
    });
    expect(await probePort(server.port)).toMatchObject({ ok: false, because: 'too_large' });
    await waitForClose(server);
  });

  test('accepts a response just below the limit and refuses one just above, in body and headers', async () => {
    const margin = 1024;
    const server = await httpServer((request, response) => {
      const filler = 'x'.repeat(request.url?.endsWith('small') ? max_bytes - margin : max_bytes);
      if (request.url?.startsWith('/headers')) response.writeHead(200, { filler }).end();
      else response.end(filler);
    });
    for (const part of ['headers', 'body']) {
      expect(await probePort(server.port, { path: `/${part}/small` })).toMatchObject({ ok: true });
      expect(await probePort(server.port, { path: `/${part}/large` })).toMatchObject({ because: 'too_large' });
    }
  });
});

/**
 * Advances the clock to the timeout once `isReady`. Returns the answers just before the timeout,
 * and the answer at the timeout.
 */
async function runToTimeout(target: ProbeTarget, isReady: () => unknown) {
  const clock = virtualClock();
  const answers: ProbeAnswer[] = [];
  const pending = probe(target, { clock }).then((answer) => answers.push(answer) && answer);
  await until('the server to have the request', () => Boolean(isReady()));
  await clock.advance(target.timeout_seconds * 1000 - 1);
  const early = [...answers];
  await clock.advance(1);
  const answer = await pending;
  return { early, answer, pendingTimers: clock.pendingTimers() };
}

describe('the timeout', () => {
  const timedOut = {
    early: [],
    answer: { ok: false, because: 'timed_out', detail: expect.any(String) },
    pendingTimers: 0,
  };

  test('ends a probe of a server that never answers', async () => {
    const server = await rawServer(() => {});
    expect(await runToTimeout(targetOf(server.port), () => server.open() > 0)).toEqual(timedOut);
    await waitForClose(server);
  });

  test.for([
    ['headers', 'HTTP/1.1 200 OK\r\nx-slow: '],
    ['a body', 'HTTP/1.1 200 OK\r\n\r\n'],
  ] as const)('is not extended by a server that sends %s byte by byte', async ([_name, start]) => {
    let drops = 0;
    const server = await rawServer((socket) => {
      socket.write(start);
      const drip = setInterval(() => socket.write('x', () => drops++), 1);
      socket.on('close', () => clearInterval(drip));
    });
    expect(await runToTimeout(targetOf(server.port), () => drops > 20)).toEqual(timedOut);
    await waitForClose(server);
  });

  test('ends a probe on the real clock too', async () => {
    const server = await rawServer(() => {});
    expect(await probePort(server.port, { timeout_seconds: 0.1 })).toMatchObject({ because: 'timed_out' });
    await waitForClose(server);
  });
});

describe('a probe fails as unreachable or connection_refused', () => {
  test('if the server closes at once', async () => {
    const server = await rawServer((socket) => socket.destroy());
    expect(await probePort(server.port)).toMatchObject({ ok: false, because: 'unreachable' });
  });

  test('if the server resets the connection', async () => {
    const server = await rawServer((socket) => socket.resetAndDestroy());
    expect(await probePort(server.port)).toMatchObject({ ok: false, because: 'unreachable' });
  });

  test('if the server closes in the middle of its body', async () => {
    const server = await rawServer((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf'));
    expect(await probePort(server.port)).toMatchObject({ ok: false, because: 'unreachable' });
  });

  test('if the server does not use HTTP', async () => {
    const server = await rawServer((socket) => socket.write('SSH-2.0-OpenSSH_9.9\r\n'));
    expect(await probePort(server.port)).toMatchObject({ ok: false, because: 'unreachable' });
    await waitForClose(server);
  });

  test('if nothing listens on the port', async () => {
    expect(await probePort(await freePort())).toMatchObject({
      ok: false,
      because: 'connection_refused',
      detail: expect.stringContaining('ECONNREFUSED'),
    });
  });
});

test('refuses an invalid URL before it opens a connection', async () => {
  const server = await httpServer((_request, response) => response.end());
  for (const base_url of [
    `http://user:secret@127.0.0.1:${server.port}`,
    `ftp://127.0.0.1:${server.port}`,
    'nonsense',
    'http://[fe80::1%25eth0]/',
  ]) {
    const answer = await probePort(server.port, { base_url });
    expect(answer).toMatchObject({ ok: false, because: 'bad_url' });
    expect(JSON.stringify(answer)).not.toContain('secret');
  }
  expect(server.connections).toEqual([]);
});
