/** A tenant's token and the console sessions of others. */
import type { Client } from '../../../src/contract/client.ts';
import { callRoute } from '../../api/support/calls.ts';
import { signIn } from '../../api/support/sign-in.ts';
import type { Attack } from '../support/attack.ts';

const tenantToken = async (client: Client) =>
  (await client.call('token-create', { body: { name: 'acme', role: 'operator', tenant: 'acme' } })).token ?? '';

export const tenantSessionAttacks: Attack[] = [
  {
    name: '12: sees who else is signed in',
    without: [
      {
        file: 'src/api/routes/sessions.ts',
        find: "token_id: role === 'admin' && tenant === null ? null : token_id,",
        replace: 'token_id: role && tenant ? null : token_id,',
      },
    ],
    async succeeds(server) {
      await signIn(server.url, server.token);
      const bearer = await tenantToken(server.client);
      const { body } = await callRoute(server.url, 'session-list', {}, { bearer });
      return (body.items as { name: string }[]).some(({ name }) => name === 'admin');
    },
  },
  {
    name: '12: signs an admin out',
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
      const own = (body.items as { session_id: string; current: boolean }[]).find(({ current }) => current);
      const bearer = await tenantToken(server.client);
      await callRoute(server.url, 'session-revoke', { params: { id: own?.session_id ?? '' } }, { bearer });
      return (await callRoute(server.url, 'overview-get', {}, { headers: { cookie } })).status === 401;
    },
  },
];
