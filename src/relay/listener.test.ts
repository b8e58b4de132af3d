/** Tests which requests a relay forwards, and to which path of the control plane. */
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { expect, test, vi } from 'vitest';
import type { Batcher } from './batcher.ts';
import { relayListener } from './listener.ts';
import type { Upstream } from './upstream.ts';

function request(method: string, url: string) {
  const forwardedPaths: string[] = [];
  const take = vi.fn(() => new Promise<never>(() => {}));
  const open = (_: string, path: string) => {
    forwardedPaths.push(path);
    return new PassThrough();
  };
  const listen = relayListener({
    batcher: { take } as unknown as Batcher,
    upstream: { open } as unknown as Upstream,
    metrics: () => '',
  });
  const request = Object.assign(new IncomingMessage(new Socket()), { method, url });
  request.push(null);
  const response = new ServerResponse(request);
  listen(request, response);
  return { forwardedPaths, status: response.headersSent ? response.statusCode : null };
}

test.each([
  ['/v1/agent/../tokens'],
  ['/v1/agent/%2e%2e/tokens'],
  ['/v1/agent/.%2E/tokens?a=/v1/agent/logs'],
  ['/v1/agent/..\\tokens'],
  ['/v1/agent/tasks/../../nodes/x/ping'],
  ['/v1/agent/tasks/..%2f..%2fnodes/progress'],
  ['/v1/agent/tasks/%252e%252e/progress'],
  ['/v1/agent/tasks/a/b/progress'],
  ['/v1/agent/unheard-of'],
  ['/v1/agent/'],
  ['/v1/agentx'],
  ['//v1/agent/logs'],
  ['/x/v1/agent/logs'],
  ['http://elsewhere.example/v1/agent/logs'],
  ['@elsewhere.example/v1/agent/logs'],
  ['*'],
  ['/v1/agent/tasks/../stream'],
])('does not forward %s', (url) => {
  expect(request('GET', url)).toEqual({ forwardedPaths: [], status: 404 });
});

test.each([
  ['GET', '/v1/agent/tasks/next?wait_seconds=20', '/v1/agent/tasks/next?wait_seconds=20'],
  ['POST', '/v1/agent/tasks/task_01.a:b-c/progress', '/v1/agent/tasks/task_01.a:b-c/progress'],
  ['POST', '/v1/agent/tasks/a%3Ab/result', '/v1/agent/tasks/a%3Ab/result'],
  ['POST', '/v1/agent/credential/reissue', '/v1/agent/credential/reissue'],
  ['GET', '/v1/agent/ping/task_1', '/v1/agent/ping/task_1'],
  ['GET', '/v1/agent/checkup', '/v1/agent/checkup'],
  ['POST', '/v1/nodes/../agent/logs', '/v1/agent/logs'],
  ['GET', '/v1/agent/heartbeat', '/v1/agent/heartbeat'],
  ['GET', '/healthz', '/healthz'],
])('forwards %s %s as %s', (method, url, path) => {
  expect(request(method, url)).toEqual({ forwardedPaths: [path], status: null });
});
