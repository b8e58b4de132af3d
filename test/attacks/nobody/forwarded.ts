/**
 * Attacks with headers that only a proxy may set. Behind the distant proxy, the attacker's address
 * is not trusted. Behind the local proxy, the attacker reaches the server from a trusted address.
 */
import { randomUUID } from 'node:crypto';
import { callRoute, send } from '../../api/support/calls.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

export const behindDistantProxy = ['--behind-proxy', '--trusted-proxies', '192.0.2.1'];
export const behindLocalProxy = ['--behind-proxy'];

/** Sends a request that is refused, and returns the address that the audit names for it. */
async function recordedAddress({ url, client }: SpawnedServer, headers: Record<string, string>): Promise<string> {
  const correlation_id = randomUUID();
  await callRoute(url, 'node-list', {}, { headers: { ...headers, 'x-correlation-id': correlation_id } });
  const refusal = await until('the refusal to be recorded', async () => {
    const { items } = await client.call('timeline-get', { query: { correlation_id } });
    return items[0];
  });
  return refusal.actor?.id ?? '';
}

const isNamedInAudit = async (server: SpawnedServer, forwarded: string): Promise<boolean> =>
  (await recordedAddress(server, { 'x-forwarded-for': forwarded })) === forwarded;

export const forwardedAttacks: Attack[] = [
  {
    name: 'forges the audit actor with X-Forwarded-For',
    without: [
      {
        file: 'src/api/http/source-address.ts',
        find: '    if (!proxies.trusts(address)) return address;\n',
        replace: '',
      },
    ],
    succeeds: (server) => isNamedInAudit(server, '198.51.100.66'),
  },
  {
    name: 'passes the origin check with X-Forwarded-Host',
    without: [
      {
        file: 'src/api/http/source-address.ts',
        find: 'const forwarded = proxies.trusts(socket.remoteAddress)',
        replace: 'const forwarded = true',
      },
    ],
    async succeeds({ url }) {
      const headers = { origin: 'https://evil.example', 'x-forwarded-host': 'evil.example' };
      const { status } = await send(url, 'GET', '/v1/nodes', { headers });
      // 401 means that the origin check passed and only the token is missing.
      return status === 401;
    },
  },
];

/** Attacks through a trusted proxy that forwards the client's header and appends nothing. */
export const forwardedTextAttacks: Attack[] = [
  {
    name: 'chooses its name in the audit through a trusted proxy',
    without: [
      {
        file: 'src/api/http/source-address.ts',
        find: 'const next = plainAddress(withoutPort(hop.trim()));',
        replace: 'const next = hop.trim();',
      },
    ],
    succeeds: (server) => isNamedInAudit(server, 'administrator'),
  },
];
