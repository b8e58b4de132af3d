/** A tenant that takes places which others need. */
import type { SpawnedServer } from '../../support/server.ts';
import type { Attack } from '../support/attack.ts';
import { holdStreams } from '../support/held-streams.ts';

const tokenOf = async ({ client }: SpawnedServer, name: string): Promise<string> => {
  const body = { name, role: 'viewer', tenant: 'crowd' } as const;
  return (await client.call('token-create', { body })).token ?? '';
};

const places = 'src/api/held/places.ts';

export const streamAttacks: Attack[] = [
  {
    name: '9: holds more event streams by one token than a token may',
    without: [
      { file: places, find: 'one_tenant: 300, one_token: 200 }', replace: 'one_tenant: 300, one_token: 1_200 }' },
    ],
    async succeeds(server) {
      const held = await holdStreams(server.url, await tokenOf(server, 'crowd-of-one'), 220);
      held.close();
      return held.opened > 200;
    },
  },
  {
    name: '9: holds more event streams by several tokens than a tenant may',
    without: [
      { file: places, find: 'one_tenant: 300, one_token: 200 }', replace: 'one_tenant: 1_200, one_token: 200 }' },
    ],
    async succeeds(server) {
      const held = [
        await holdStreams(server.url, await tokenOf(server, 'crowd-a'), 180),
        await holdStreams(server.url, await tokenOf(server, 'crowd-b'), 180),
      ];
      for (const each of held) each.close();
      return held.reduce((sum, { opened }) => sum + opened, 0) > 300;
    },
  },
];
