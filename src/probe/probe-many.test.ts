import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { until } from '../../test/support/until.ts';
import { systemClock } from '../base/clock.ts';
import { virtualClock } from '../base/virtual-clock.ts';
import type { ProbeTarget } from './http-probe.ts';
import { probeMany } from './probe-many.ts';
import { httpServer } from './testing/loopback-servers.ts';

interface NamedTarget extends ProbeTarget {
  node: number;
}

const targets = (port: number, count: number, path: (node: number) => string = () => '/'): NamedTarget[] =>
  Array.from({ length: count }, (_, node) => ({
    node,
    base_url: `http://127.0.0.1:${port}`,
    path: path(node),
    timeout_seconds: 2,
    allow_private: true,
  }));

test('answers each target, in the order of the targets', async () => {
  const server = await httpServer((request, response) => {
    response.writeHead(request.url === '/3' ? 503 : 200).end();
  });
  const answers = await probeMany(
    targets(server.port, 10, (node) => `/${node}`),
    { clock: systemClock },
  );
  expect(answers.map(({ ok }) => ok)).toEqual(Array.from({ length: 10 }, (_, node) => node !== 3));
  expect(await probeMany([], { clock: systemClock })).toEqual([]);
});

test('runs as many probes at once as `max_concurrent` allows', async () => {
  const max_concurrent = 8;
  const responses: ServerResponse[] = [];
  let maxInProgress = 0;
  let inProgress = 0;
  const server = await httpServer((_request, response) => {
    maxInProgress = Math.max(maxInProgress, ++inProgress);
    response.on('close', () => inProgress--);
    responses.push(response);
    // Answers all requests once every slot is in use.
    if (responses.length >= max_concurrent) for (const each of responses) each.end();
  });
  const clock = virtualClock();
  const answers = await probeMany(targets(server.port, 100), { clock, max_concurrent });
  expect(answers.every(({ ok }) => ok)).toBe(true);
  expect(server.connections).toHaveLength(100);
  expect(maxInProgress).toBe(max_concurrent);
});

test('answers other targets while some hang until their timeout', async () => {
  const clock = virtualClock();
  const isHanging = (node: number) => node % 10 === 0;
  const server = await httpServer((request, response) => {
    if (request.url !== '/hang') response.end();
  });
  const answered: { node: number; ok: boolean }[] = [];
  const all = probeMany(
    targets(server.port, 200, (node) => (isHanging(node) ? '/hang' : '/')),
    { clock, onAnswer: ({ node }, { ok }) => answered.push({ node, ok }) },
  );
  await until('all others to be answered', () => answered.length === 180);
  expect(answered.every(({ node, ok }) => ok && !isHanging(node))).toBe(true);
  await clock.advance(2_000);
  const answers = await all;
  expect(answers.map((answer) => (answer.ok ? 'ok' : answer.because))).toEqual(
    answers.map((_, node) => (isHanging(node) ? 'timed_out' : 'ok')),
  );
  expect(answered).toHaveLength(200);
  expect(clock.pendingTimers()).toBe(0);
});

test('starts the next targets after one timeout if all running ones hang', async () => {
  const clock = virtualClock();
  const server = await httpServer((request, response) => {
    if (request.url !== '/hang') response.end();
  });
  const all = probeMany(
    targets(server.port, 6, (node) => (node < 2 ? '/hang' : '/')),
    { clock, max_concurrent: 2 },
  );
  await until('both slots to be in use', () => server.connections.length === 2);
  await clock.advance(2_000);
  expect((await all).map(({ ok }) => ok)).toEqual([false, false, true, true, true, true]);
});

test('returns an unexpected error as the answer of its target only', async () => {
  const server = await httpServer((_request, response) => response.end());
  const [before, broken, after] = targets(server.port, 3);
  if (!before || !broken || !after) throw new Error('expected three targets');
  const poisoned = Object.defineProperty({ ...broken }, 'base_url', {
    get: () => {
      throw new Error('poisoned');
    },
  });
  const answers = await probeMany([before, poisoned, after], { clock: systemClock, max_concurrent: 1 });
  expect(answers).toMatchObject([
    { ok: true },
    { ok: false, detail: expect.stringContaining('poisoned') },
    { ok: true },
  ]);
});
