/** A tenant attacks the console sessions of others with its token. */
import type { Client } from '../../../src/contract/client.ts';
import { callRoute } from '../../api/support/calls.ts';
import { signIn } from '../../api/support/sign-in.ts';
import type { Attack } from '../support/attack.ts';

const createTenantToken = async (client: Client) =>
  (await client.call('token-create', { body: { name: 'acme', role: 'operator', tenant: 'acme' } })).token ?? '';

export const tenantSessionAttacks: Attack[] = [
  {
    name: 'sees who else is signed in',
    without: [
      {
        file: 'src/api/routes/sessions.ts',
        find: "token_id: role === 'admin' && visibility.kind === 'fleet' ? null : token_id,",
        replace: 'token_id: role && visibility ? null : token_id,',
      },
    ],
    async succeeds(server) {
      await signIn(server.url, server.token);
      const bearer = await createTenantToken(server.client);
      const { body } = await callRoute(server.url, 'session-list', {}, { bearer });
      return (body.items as { name: string }[]).some(({ name }) => name === 'admin');
    },
  },
  {
    name: 'signs an admin out',
    without: [
      {
        file: 'src/api/sign-in/session-cookie.ts',
        find: 'isFleetAdmin ? null : by.token_id',
        replace: 'isFleetAdmin ? null : null',
      },
    ],
    async succeeds(server) {
      const cookie = await signIn(server.url, server.token);
      const { body } = await callRoute(server.url, 'session-list', {}, { headers: { cookie } });
      const adminSession = (body.items as { session_id: string; current: boolean }[]).find(({ current }) => current);
      const bearer = await createTenantToken(server.client);
      await callRoute(server.url, 'session-revoke', { params: { id: adminSession?.session_id ?? '' } }, { bearer });
      return (await callRoute(server.url, 'overview-get', {}, { headers: { cookie } })).status === 401;
    },
  },
  {
    name: 'sees all sessions as the admin of its tenant',
    without: [
      {
        file: 'src/api/routes/sessions.ts',
        find: "role === 'admin' && visibility.kind === 'fleet' ? null",
        replace: "role === 'admin' && visibility ? null",
      },
    ],
    async succeeds(server) {
      await signIn(server.url, server.token);
      const body = { name: 'acme-admin', role: 'admin', tenant: 'acme' } as const;
      const { token: bearer = '' } = await server.client.call('token-create', { body });
      const { body: page } = await callRoute(server.url, 'session-list', {}, { bearer });
      return (page.items as { name: string }[]).some(({ name }) => name === 'admin');
    },
  },
  {
    name: 'sees the whole fleet after signing in',
    without: [
      {
        file: 'src/api/http/auth.ts',
        find: 'return { ...person, session_id, expires_at };',
        replace: 'return { ...person, visibility: wholeFleet, session_id, expires_at };',
      },
    ],
    async succeeds(server) {
      const cookie = await signIn(server.url, await createTenantToken(server.client));
      return (await callRoute(server.url, 'overview-get', {}, { headers: { cookie } })).status === 200;
    },
  },
  {
    name: 'guesses tokens at sign-in while sending its own token',
    without: [
      {
        file: 'src/api/http/auth.ts',
        find: 'services.tokenFailures.countFailure(sourceNetwork(request))',
        replace: 'undefined',
      },
    ],
    async succeeds(server) {
      const bearer = await createTenantToken(server.client);
      const statuses = new Set<number>();
      for (let guess = 0; guess < 30; guess++) {
        const body = { token: `swt_guess-${guess}` };
        statuses.add((await callRoute(server.url, 'session-create', { body }, { bearer })).status);
      }
      return !statuses.has(429);
    },
  },
];
