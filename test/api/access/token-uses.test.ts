/**
 * The token list shows the last use of each token, and a finding warns before a token in use
 * expires.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../../support/until.ts';
import { callRoute, expectProblem } from '../support/calls.ts';
import { signIn } from '../support/sign-in.ts';
import { openStream } from '../support/stream-client.ts';
import { externalPool, externalServer } from '../support/tenants.ts';

let server: Awaited<ReturnType<typeof externalServer>>;
beforeAll(async () => {
  server = await externalServer();
});
afterAll(() => server?.stop());

const findToken = async (token_id: string) =>
  (await server.client.call('token-list', {})).items.find((each) => each.token_id === token_id);
const waitForUse = (token_id: string) =>
  until(`the use of ${token_id}`, async () => (await findToken(token_id))?.last_used_at ?? undefined);

it('shows a token as unused until a call is authenticated by it', async () => {
  const fresh = await server.client.call('token-create', {
    body: { name: 'script', role: 'viewer', ttl_seconds: 3600 },
  });
  expect(fresh.last_used_at).toBeNull();
  expect(await findToken(fresh.token_id)).toMatchObject({ last_used_at: null, expires_at: fresh.expires_at });
  const calledAt = Date.parse(fresh.created_at);
  expect((await callRoute(server.url, 'node-list', {}, { bearer: fresh.token ?? '' })).status).toBe(200);
  expect(Date.parse(await waitForUse(fresh.token_id))).toBeGreaterThanOrEqual(calledAt);
});

it('counts a call that the role forbids as a use, but no call with an expired token', async () => {
  const viewer = await server.tokenFor('viewer');
  expectProblem(await callRoute(server.url, 'token-list', {}, { bearer: viewer.token }), 'role_insufficient');
  const expired = await server.tokenFor('viewer', { ttl_seconds: 0.001 });
  expectProblem(await callRoute(server.url, 'node-list', {}, { bearer: expired.token }), 'token_expired');
  // Uses are written in order, so after the next use a use of the expired token would be stored
  // too.
  await waitForUse(viewer.token_id);
  const after = await server.tokenFor('viewer');
  await callRoute(server.url, 'node-list', {}, { bearer: after.token });
  await waitForUse(after.token_id);
  expect(await findToken(expired.token_id)).toMatchObject({ last_used_at: null });
});

it('counts signing in to the console as a use', async () => {
  const { token, token_id } = await server.tokenFor('viewer');
  await signIn(server.url, token);
  await waitForUse(token_id);
});

it('counts a call with a session as a use', async () => {
  const cookie = await signIn(server.url, (await server.tokenFor('viewer')).token);
  // Signing in is a use already, so this session belongs to a token that was never used.
  const { token_id } = await server.tokenFor('viewer');
  await server.tables.query(
    'update sessions set token_id = $1 where session_id = (select max(session_id) from sessions)',
    [token_id],
  );
  expect((await callRoute(server.url, 'session-get', {}, { headers: { cookie } })).body).toMatchObject({ token_id });
  await waitForUse(token_id);
});

it.each(['batch', 'stream'] as const)('counts a %s of a relay as a use', async (way) => {
  const { token, token_id } = await server.tokenFor('relay', { pool: externalPool });
  if (way === 'batch') {
    const batch = { body: { beats: [{}] } };
    expect((await callRoute(server.url, 'agent-heartbeats', batch, { bearer: token })).status).toBe(200);
  } else {
    const line = await openStream(server.url, token);
    line.socket.close(1000);
  }
  await waitForUse(token_id);
});

it('opens a finding for a token in use that expires soon, and closes it when another of its name is used', async () => {
  const make = (ttl_seconds: number) =>
    server.client.call('token-create', { body: { name: 'nightly', role: 'viewer', ttl_seconds } });
  const old = await make(86_400);
  await callRoute(server.url, 'node-list', {}, { bearer: old.token ?? '' });
  await waitForUse(old.token_id);
  await server.tables.query(
    `update tokens set created_at = now() - interval '23 hours', expires_at = now() + interval '1 hour' where token_id = $1`,
    [old.token_id],
  );
  const expiring = async () => (await server.client.call('drift-list', { query: { kind: 'token' } })).items[0];
  // A new token wakes the sweep.
  const next = await make(30 * 86_400);
  expect(await until('the finding', expiring)).toMatchObject({
    what: 'token_expiring',
    subject: old.token_id,
    pool: null,
    ours: { name: 'nightly', role: 'viewer' },
    theirs: { last_used_at: expect.any(String) },
  });
  await callRoute(server.url, 'node-list', {}, { bearer: next.token ?? '' });
  await waitForUse(next.token_id);
  await make(30 * 86_400);
  await until('the finding to close', async () => (await expiring()) === undefined);
});
