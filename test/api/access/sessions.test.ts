/** Console sessions: sign-in, listing, revocation, and limits. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { callRoute, expectProblem } from '../support/calls.ts';
import { openStreamWithCookie, signIn } from '../support/sign-in.ts';
import { openTables, type Tables } from '../support/tables.ts';

let server: TestServer;
let tables: Tables;
beforeAll(async () => {
  server = await inProcessServer();
  tables = await openTables(server.database_url);
});
afterAll(async () => {
  await tables?.close();
  await server?.stop();
});

const withCookie = (cookie: string) => ({ headers: { cookie } });
const readSessionStatus = async (cookie: string) =>
  (await callRoute(server.url, 'session-get', {}, withCookie(cookie))).status;
type ListedSession = {
  session_id: string;
  name: string;
  current: boolean;
  user_agent: string | null;
  address: string | null;
};
const listSessions = async (cookie: string) =>
  (await callRoute(server.url, 'session-list', {}, withCookie(cookie))).body.items as ListedSession[];

it('stores only the hash of the cookie', async () => {
  const cookie = await signIn(server.url, server.token);
  const secret = cookie.slice(cookie.indexOf('=') + 1);
  expect(secret).toMatch(/^sws_[\w-]{43}$/);
  const [row] = await tables.query<{ all: string }>(`select string_agg(s::text, '|') as all from sessions s`);
  expect(row?.all).not.toContain(secret);
});

it('ends only this session on sign-out, and clears both cookies', async () => {
  const [one, other] = [await signIn(server.url, server.token), await signIn(server.url, server.token)];
  const { status, headers } = await callRoute(server.url, 'session-delete', {}, withCookie(one));
  expect(status).toBe(204);
  expect(headers.getSetCookie().map((line) => line.split('=')[0])).toEqual([
    'slipway_session',
    '__Host-slipway_session',
  ]);
  expect([await readSessionStatus(one), await readSessionStatus(other)]).toEqual([401, 200]);
  expectProblem(await callRoute(server.url, 'session-get', {}, withCookie(one)), 'token_unknown');
});

it('lets a token list and end its own sessions, and lets an admin list all sessions', async () => {
  const { token = '' } = await server.client.call('token-create', { body: { name: 'own', role: 'viewer' } });
  const [admin, one, two] = [
    await signIn(server.url, server.token),
    await signIn(server.url, token),
    await signIn(server.url, token),
  ];
  const ownSessions = await listSessions(one);
  expect(ownSessions.map(({ name }) => name)).toEqual(['own', 'own']);
  expect(ownSessions.map(({ current }) => current)).toEqual([true, false]);
  expect(ownSessions[0]?.address).toMatch(/^(127\.0\.0\.1|::1)$/);
  expect((await listSessions(admin)).map(({ name }) => name)).toEqual(expect.arrayContaining(['admin', 'own']));
  const params = { id: ownSessions[1]?.session_id ?? '' };
  expect((await callRoute(server.url, 'session-revoke', { params }, withCookie(one))).status).toBe(204);
  expect([await readSessionStatus(one), await readSessionStatus(two)]).toEqual([200, 401]);
  expectProblem(await callRoute(server.url, 'session-revoke', { params }, withCookie(one)), 'session_not_found');
});

it('closes the stream of an ended session, and no other stream', async () => {
  const [ended, other] = [await signIn(server.url, server.token), await signIn(server.url, server.token)];
  const [endedStream, otherStream] = [
    await openStreamWithCookie(server.url, ended),
    await openStreamWithCookie(server.url, other),
  ];
  await callRoute(server.url, 'session-delete', {}, withCookie(ended));
  await until('the stream to end', () => endedStream.ended());
  await server.client.call('token-create', { body: { name: 'shown-to-the-other', role: 'viewer' } });
  await until('the other stream to continue', () => otherStream.text().includes('shown-to-the-other'));
  otherStream.close();
});

it('ends the sessions of a revoked token', async () => {
  const { token = '', token_id } = await server.client.call('token-create', {
    body: { name: 'short', role: 'viewer' },
  });
  const cookie = await signIn(server.url, token);
  await server.client.call('token-delete', { params: { id: token_id } });
  expect(await readSessionStatus(cookie)).toBe(401);
});

it('limits a token to a hundred sessions: a new session ends the least recently used one', async () => {
  const { token = '', token_id } = await server.client.call('token-create', { body: { name: 'many', role: 'viewer' } });
  const first = await signIn(server.url, token);
  for (let more = 0; more < 100; more++) await signIn(server.url, token);
  expect(await readSessionStatus(first)).toBe(401);
  expect(await tables.query('select from sessions where token_id = $1', [token_id])).toHaveLength(100);
});

it('answers 429 with Retry-After after many wrong tokens from one address, and still accepts a valid token', async () => {
  for (let tries = 0; tries < 20; tries++)
    expectProblem(await callRoute(server.url, 'session-get', {}, { bearer: 'wrong' }), 'token_unknown');
  const refusal = await callRoute(server.url, 'session-create', { body: { token: 'wrong' } });
  expectProblem(refusal, 'too_many_failures');
  expect(Number(refusal.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
  expect((await callRoute(server.url, 'session-get', {}, { bearer: server.token })).status).toBe(200);
  expect(await readSessionStatus(await signIn(server.url, server.token))).toBe(200);
});
