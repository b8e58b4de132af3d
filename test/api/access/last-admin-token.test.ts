/** An installation always has an admin: its last admin token cannot be revoked. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { callRoute, expectProblem } from '../support/calls.ts';
import { externalServer } from '../support/tenants.ts';

let server: Awaited<ReturnType<typeof externalServer>>;
let firstId: string;
beforeAll(async () => {
  server = await externalServer();
  const { items } = await server.client.call('token-list', {});
  firstId = items.find(({ role }) => role === 'admin')?.token_id ?? '';
});
afterAll(() => server?.stop());

const revoke = (id: string, bearer = server.token) =>
  callRoute(server.url, 'token-delete', { params: { id } }, { bearer });

it('refuses to revoke the last admin token; tokens that expire, are revoked or have a tenant do not count', async () => {
  await server.tokenFor('admin', { ttl_seconds: 0.001 });
  const expiring = await server.tokenFor('admin', { ttl_seconds: 3600 });
  await server.tokenFor('admin', { tenant: 'acme' });
  await server.tokenFor('operator');
  const revoked = await server.tokenFor('admin');
  expect((await revoke(revoked.token_id)).status).toBe(204);
  expectProblem(await revoke(firstId), 'last_admin_token');
  expect((await revoke(expiring.token_id)).status).toBe(204);
  expect((await callRoute(server.url, 'token-list', {}, { bearer: server.token })).status).toBe(200);
});

it('revokes all but one of several that are revoked at once', async () => {
  const others = [await server.tokenFor('admin'), await server.tokenFor('admin')];
  // Each token revokes itself, so no request fails because its own token was revoked before.
  const tokens = [{ token: server.token, token_id: firstId }, ...others];
  const answers = await Promise.all(tokens.map(({ token, token_id }) => revoke(token_id, token)));
  expect(answers.map(({ status }) => status).sort()).toEqual([204, 204, 409]);
});
