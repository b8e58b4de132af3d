/** While one tenant holds its maximum number of streams, others can still open streams. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { streamShares } from '../../../src/api/limits/held/places.ts';
import { holdStreams } from '../../attacks/support/held-streams.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { callRoute, expectProblem } from '../support/calls.ts';

let server: TestServer;
beforeAll(async () => {
  server = await inProcessServer();
});
afterAll(() => server?.stop());

const createToken = async (name: string, tenant?: string): Promise<string> =>
  (await server.client.call('token-create', { body: { name, role: 'viewer', ...(tenant && { tenant }) } })).token ?? '';

it('lets operators of the fleet and another tenant open streams while a tenant is at its limit', async () => {
  const acme = [await createToken('acme-1', 'acme'), await createToken('acme-2', 'acme')] as const;
  const first = await holdStreams(server.url, acme[0], streamShares.one_token);
  const second = await holdStreams(server.url, acme[1], streamShares.one_token);
  expect(first).toMatchObject({ opened: streamShares.one_token, refused: null });
  expect(first.opened + second.opened).toBe(streamShares.one_tenant);

  const answer = await callRoute(server.url, 'stream-open', {}, { bearer: acme[1] });
  expectProblem(answer, 'rate_limited');
  expect(answer.headers.get('retry-after')).toBe('15');
  expect(answer.body.detail).toContain('acme');

  const otherTokens = [await createToken('globex-1', 'globex'), await createToken('fleet-1'), server.token];
  for (const token of otherTokens) {
    const heldStreams = await holdStreams(server.url, token, 3);
    expect(heldStreams).toMatchObject({ opened: 3, refused: null });
    heldStreams.close();
  }
  first.close();
  second.close();
  await until('the streams to be closed on the server', async () => {
    const next = await holdStreams(server.url, acme[0], 1);
    next.close();
    return next.opened === 1;
  });
});
