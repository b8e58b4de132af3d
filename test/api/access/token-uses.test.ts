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
  const createdToken = await server.client.call('token-create', {
    body: { name: 'script', role: 'viewer', ttl_seconds: 3600 },
  });
  expect(createdToken.last_used_at).toBeNull();
  expect(await findToken(createdToken.token_id)).toMatchObject({
    last_used_at: null,
    expires_at: createdToken.expires_at,
  });
  const createdAtMs = Date.parse(createdToken.created_at);
  expect((await callRoute(server.url, 'node-list', {}, { bearer: createdToken.token ?? '' })).status).toBe(200);
  expect(Date.parse(await waitForUse(createdToken.token_id))).toBeGreaterThanOrEqual(createdAtMs);
});

it('counts a call that the role forbids as a use, but no call with an expired token', async () => {
  const viewer = await server.tokenFor('viewer');
  expectProblem(await callRoute(server.url, 'token-list', {}, { bearer: viewer.token }), 'role_insufficient');
  const expiredToken = await server.tokenFor('viewer', { ttl_seconds: 0.001 });
  expectProblem(await callRoute(server.url, 'node-list', {}, { bearer: expiredToken.token }), 'token_expired');
  // Uses are stored in order. Once a later use is stored, a use of the expired token would be too.
  await waitForUse(viewer.token_id);
  const laterToken = await server.tokenFor('viewer');
  await callRoute(server.url, 'node-list', {}, { bearer: laterToken.token });
  await waitForUse(laterToken.token_id);
  expect(await findToken(expiredToken.token_id)).toMatchObject({ last_used_at: null });
});

it('counts signing in to the console as a use', async () => {
  const { token, token_id } = await server.tokenFor('viewer');
  await signIn(server.url, token);
  await waitForUse(token_id);
});

it('counts a call with a session as a use', async () => {
  const cookie = await signIn(server.url, (await server.tokenFor('viewer')).token);
  // Signing in counts as a use, so the session is moved to a token that was never used.
  const { token_id } = await server.tokenFor('viewer');
  await server.tables.query(
    'update sessions set token_id = $1 where session_id = (select max(session_id) from sessions)',
    [token_id],
  );
  expect((await callRoute(server.url, 'session-get', {}, { headers: { cookie } })).body).toMatchObject({ token_id });
  await waitForUse(token_id);
});

it.each(['batch', 'stream'] as const)('counts a %s of a relay as a use', async (transport) => {
  const { token, token_id } = await server.tokenFor('relay', { pool: externalPool });
  if (transport === 'batch') {
    const batch = { body: { beats: [{}] } };
    expect((await callRoute(server.url, 'agent-heartbeats', batch, { bearer: token })).status).toBe(200);
  } else {
    const stream = await openStream(server.url, token);
    stream.socket.close(1000);
  }
  await waitForUse(token_id);
});

it('opens a finding for a used token that expires soon, and closes it when another token of that name is used', async () => {
  const createToken = (ttl_seconds: number) =>
    server.client.call('token-create', { body: { name: 'nightly', role: 'viewer', ttl_seconds } });
  const expiringToken = await createToken(86_400);
  await callRoute(server.url, 'node-list', {}, { bearer: expiringToken.token ?? '' });
  await waitForUse(expiringToken.token_id);
  await server.tables.query(
    `update tokens
     set created_at = now() - interval '23 hours', expires_at = now() + interval '1 hour'
     where token_id = $1`,
    [expiringToken.token_id],
  );
  const readFinding = async () => (await server.client.call('drift-list', { query: { kind: 'token' } })).items[0];
  // A new token wakes the sweep.
  const newToken = await createToken(30 * 86_400);
  expect(await until('the finding', readFinding)).toMatchObject({
    what: 'token_expiring',
    subject: expiringToken.token_id,
    pool: null,
    ours: { name: 'nightly', role: 'viewer' },
    theirs: { last_used_at: expect.any(String) },
  });
  await callRoute(server.url, 'node-list', {}, { bearer: newToken.token ?? '' });
  await waitForUse(newToken.token_id);
  await createToken(30 * 86_400);
  await until('the finding to close', async () => (await readFinding()) === undefined);
});
