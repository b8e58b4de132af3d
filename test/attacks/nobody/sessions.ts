/** An attacker uses a copied session cookie, guesses tokens, or plants a cookie. */
import pg from 'pg';
import { callRoute } from '../../api/support/calls.ts';
import { cookieOf, openStreamWithCookie, signIn } from '../../api/support/sign-in.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack, SourceEdit } from '../support/attack.ts';

const isAccepted = async (url: string, cookie: string): Promise<boolean> =>
  (await callRoute(url, 'overview-get', {}, { headers: { cookie } })).status === 200;

async function backdateSessions(
  server: SpawnedServer,
  column: 'last_used_at' | 'expires_at',
  hours: number,
): Promise<void> {
  const client = new pg.Client({ connectionString: server.database_url });
  await client.connect();
  await client.query(`update sessions set ${column} = now() - make_interval(hours => $1)`, [hours]);
  await client.end();
}

const sessionEnd: SourceEdit = {
  file: 'src/api/routes/sessions.ts',
  find: 'if (session_id !== null)',
  replace: 'if (false as boolean && session_id !== null)',
};

export const sessionAttacks: Attack[] = [
  {
    name: 'uses a copied cookie after its owner signed out',
    without: [sessionEnd],
    async succeeds(server) {
      const cookie = await signIn(server.url, server.token);
      if (!(await isAccepted(server.url, cookie))) throw new Error('the session did not work before');
      await callRoute(server.url, 'session-delete', {}, { headers: { cookie } });
      return isAccepted(server.url, cookie);
    },
  },
  {
    name: 'uses a copied cookie on another replica after its owner signed out',
    without: [sessionEnd],
    async succeeds(server) {
      const otherReplica = await spawnServer({ beside: server });
      try {
        const cookie = await signIn(server.url, server.token);
        if (!(await isAccepted(otherReplica.url, cookie))) throw new Error('the session did not work before');
        await callRoute(server.url, 'session-delete', {}, { headers: { cookie } });
        return await isAccepted(otherReplica.url, cookie);
      } finally {
        await otherReplica.stop();
      }
    },
  },
  {
    name: 'keeps reading a stream after the session was revoked',
    without: [
      {
        file: 'src/api/stream/stream-audience.ts',
        find: "kind === 'session.ended' ?",
        replace: "kind === ('' as string) ?",
      },
    ],
    async succeeds(server) {
      const cookie = await signIn(server.url, server.token);
      const stream = await openStreamWithCookie(server.url, cookie);
      const { body } = await callRoute(server.url, 'session-list', {}, { headers: { cookie } });
      const session = (body.items as { session_id: string; current: boolean }[]).find(({ current }) => current);
      await callRoute(
        server.url,
        'session-revoke',
        { params: { id: session?.session_id ?? '' } },
        { bearer: server.token },
      );
      // A change after the revocation. A stream that is still open would show it.
      const name = `after-${session?.session_id.slice(-8)}`;
      await server.client.call('token-create', { body: { name, role: 'viewer' } });
      await until(
        'the stream to end or to show the later change',
        () => stream.ended() || stream.text().includes(name),
      );
      const isLeaked = stream.text().includes(name);
      stream.close();
      return isLeaked;
    },
  },
  {
    name: 'uses a cookie that was idle for hours',
    without: [
      {
        file: 'src/api/sign-in/session-cookie.ts',
        find: '|| session.session_used_at <= idleCutoff(at, services)',
        replace: '',
      },
    ],
    async succeeds(server) {
      const cookie = await signIn(server.url, server.token);
      await backdateSessions(server, 'last_used_at', 3);
      return isAccepted(server.url, cookie);
    },
  },
  {
    name: 'uses a cookie beyond its maximum lifetime',
    without: [
      {
        file: 'src/api/sign-in/session-cookie.ts',
        find: 'session.session_expires_at <= at ||',
        replace: '',
      },
    ],
    async succeeds(server) {
      const cookie = await signIn(server.url, server.token);
      await backdateSessions(server, 'expires_at', 1);
      return isAccepted(server.url, cookie);
    },
  },
  {
    name: 'guesses tokens without being slowed down',
    without: [
      {
        file: 'src/api/http/auth.ts',
        find: 'services.tokenFailures.countFailure(sourceNetwork(request))',
        replace: 'undefined',
      },
    ],
    async succeeds(server) {
      const statuses = new Set<number>();
      for (let guess = 0; guess < 30; guess++)
        statuses.add((await callRoute(server.url, 'session-create', { body: { token: `guess-${guess}` } })).status);
      // A valid token must work although wrong tokens came from the same address.
      if ((await callRoute(server.url, 'overview-get', {}, { bearer: server.token })).status !== 200)
        throw new Error('a valid token was locked out');
      return !statuses.has(429);
    },
  },
];

/**
 * Behind TLS, the name of the session cookie starts with `__Host-`, and browsers accept such a
 * cookie only from this very host. A sibling host of the domain can set a cookie without the
 * prefix, so the server must ignore that plain name.
 */
export const plantedCookieAttacks: Attack[] = [
  {
    name: 'plants a session cookie from another host of the domain',
    without: [
      {
        file: 'src/api/sign-in/session-cookie.ts',
        find: 'request.cookies[nameFor(services)]',
        replace: 'request.cookies[nameFor(services)] ?? request.cookies[plainName]',
      },
    ],
    async succeeds(server) {
      const { status, headers } = await callRoute(server.url, 'session-create', { body: { token: server.token } });
      const ownCookie = cookieOf(headers);
      if (status !== 201 || !ownCookie.startsWith('__Host-') || !(await isAccepted(server.url, ownCookie)))
        throw new Error(`no session over TLS: ${status} ${ownCookie}`);
      return isAccepted(server.url, ownCookie.replace('__Host-', ''));
    },
  },
];
