/**
 * Sends hostile bodies of 200 KB to every address, in every content type and without a credential,
 * while /healthz must keep answering. A worker thread sends them, eight at a time.
 *
 * The test measures the longest CPU time for which the main thread did not return to its event
 * loop. Unlike wall time, CPU time does not grow when other processes use the machine.
 */
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { protocolPath, protocolRoutes } from '../../../src/contract/compat/routes.ts';
import type { RouteDeclaration } from '../../../src/contract/route.ts';
import { routes } from '../../../src/contract/routes.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { type HostileRequest, shapesOf } from '../support/hostile-sender.ts';

const maxStretchMs = 200;
const size = 200_000;

let server: SpawnedServer;
beforeAll(async () => {
  const hook = fileURLToPath(new URL('../support/longest-stretch.mjs', import.meta.url));
  server = await spawnServer({ node_args: ['--import', hook] });
});
afterAll(() => server?.stop());

let queryCount = 0;
/** Reads the longest stretch since the last call. */
async function readLongestStretchMs(): Promise<number> {
  const mark = new RegExp(`stretch ${++queryCount} ([\\d.]+) ms`);
  process.kill(server.pid, 'SIGUSR2');
  const [, ms] = await until('the server to print its longest stretch', () => mark.exec(server.output()) ?? undefined);
  return Number(ms);
}

const routeTable: RouteDeclaration[] = Object.values(routes);
const withId = (path: string) => path.replaceAll(/\{\w+\}/g, 'x');

/**
 * Every content type at every address. Routes that read a body before authentication also get every
 * shape, chunked bodies, and bodies just below their limit.
 */
function hostileRequests(): HostileRequest[] {
  const requests: HostileRequest[] = [];
  const add = (method: string, path: string, isRead: boolean, limit: number) => {
    for (const [type, shapes] of Object.entries(shapesOf))
      for (const shape of isRead ? Object.keys(shapes) : Object.keys(shapes).slice(0, 1)) {
        requests.push({ method, path, type, shape, size, chunked: false });
        if (!isRead) continue;
        requests.push({ method, path, type, shape, size, chunked: true });
        requests.push({ method, path, type, shape, size: Math.min(0.9 * limit, size), chunked: false });
      }
  };
  for (const { method, path, access, body_limit_bytes = size } of routeTable) {
    const isRead = method !== 'GET' && (access.kind === 'body' || access.kind === 'public');
    add(method, withId(path), isRead, body_limit_bytes);
  }
  for (const route of Object.values(protocolRoutes)) add(route.method, withId(protocolPath(route)), false, size);
  for (const path of ['/', '/nowhere', '/docs/json', '/v1/nowhere', '/compat/agentfield/token/api/v1/nowhere'])
    add('POST', path, false, size);
  return requests;
}

it('hostile bodies do not block /healthz', { timeout: 300_000 }, async () => {
  const probe = async () => {
    const beganMs = systemClock.monotonicMs();
    const { status } = await fetch(`${server.url}/healthz`);
    expect(status).toBe(200);
    return systemClock.monotonicMs() - beganMs;
  };
  for (let count = 0; count < 20; count++) await probe();
  await readLongestStretchMs();
  for (let count = 0; count < 50; count++) await probe();
  const idleStretchMs = await readLongestStretchMs();

  const requests = hostileRequests();
  const sender = new Worker(new URL('../support/hostile-sender.ts', import.meta.url), {
    workerData: { url: server.url, requests },
  });
  let statuses: Record<string, number> | undefined;
  const finished = once(sender, 'message').then(([message]) => {
    statuses = message;
  });
  let [probes, slowestMs] = [0, 0];
  while (!statuses) {
    slowestMs = Math.max(slowestMs, await probe());
    probes++;
  }
  await finished;
  await sender.terminate();
  const stretchMs = await readLongestStretchMs();
  console.log(
    `${requests.length} hostile requests answered ${JSON.stringify(statuses)}; ${probes} probes of /healthz, the slowest ` +
      `${slowestMs.toFixed(0)} ms on the wall; longest stretch of the server's thread ${stretchMs} ms of CPU (idle: ${idleStretchMs} ms)`,
  );
  expect(probes).toBeGreaterThan(0);
  expect(stretchMs).toBeLessThan(maxStretchMs);
});
