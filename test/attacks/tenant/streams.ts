/** A tenant that takes the streams and catch-ups that others need. */
import { openDatabase } from '../../../src/store/pg/database.ts';
import type { SpawnedServer } from '../../support/server.ts';
import type { Attack, SourceEdit } from '../support/attack.ts';
import { createJoinToken } from '../support/floods.ts';
import { type HeldStreams, holdStreams } from '../support/held-streams.ts';
import { createTenantToken } from '../support/tenancy.ts';

const places = 'src/api/limits/held/places.ts';
/** Every number occurs once in the line of its shares. */
const sharesWithout = (line: string, find: string, replace: string): SourceEdit[] => {
  if (!line.includes(find)) throw new Error(`${find} is not in ${line}`);
  return [{ file: places, find: line, replace: line.replace(find, replace) }];
};
const streams = 'total: 1_200, all_tenants: 800, one_tenant: 300, one_token: 200';
const streamsKept = 'kept: 200, few: 10';
const catchUps = 'total: 12, all_tenants: 8, one_tenant: 4, one_token: 3';

const openedBy = (held: HeldStreams[]) => held.reduce((sum, { opened }) => sum + opened, 0);
const closeAll = (held: HeldStreams[]) => {
  for (const each of held) each.close();
};

/** Opens that many streams for each tenant, with two tokens each. */
async function crowd(server: SpawnedServer, tenants: string[], each: number): Promise<HeldStreams[]> {
  const held: HeldStreams[] = [];
  for (const tenant of tenants)
    for (const name of [`${tenant}-a`, `${tenant}-b`])
      held.push(await holdStreams(server.url, await createTenantToken(server, tenant, name), each / 2));
  return held;
}

/** Writes more facts about the tenant's allocation than an unread connection can buffer. */
async function longHistory(server: SpawnedServer, tenant: string): Promise<string> {
  await createJoinToken(server, `${tenant}-pool`);
  const bearer = await createTenantToken(server, tenant);
  const { allocation } = await server
    .as(bearer)
    .call('allocation-create', { body: { pool: `${tenant}-pool`, name: 'one' } });
  const db = openDatabase({ url: server.database_url, max_connections: 1 });
  try {
    await db.query(
      `insert into evidence (at, layer, kind, summary, data, allocation_id, origin)
       select now(), 'workflow', 'node.explained', repeat('x', 3000), '{}', $1, 'internal'
       from generate_series(1, 6000)`,
      [allocation.allocation_id],
    );
  } finally {
    await db.close();
  }
  return bearer;
}

export const streamAttacks: Attack[] = [
  {
    name: 'holds more event streams than one token may',
    without: sharesWithout(streams, 'one_token: 200', 'one_token: 1_200'),
    async succeeds(server) {
      const held = await holdStreams(server.url, await createTenantToken(server, 'crowd', 'crowd-of-one'), 220);
      held.close();
      return held.opened > 200;
    },
  },
  {
    name: 'holds more event streams than one tenant may, with several tokens',
    without: sharesWithout(streams, 'one_tenant: 300', 'one_tenant: 1_200'),
    async succeeds(server) {
      const held = await crowd(server, ['crowd'], 360);
      closeAll(held);
      return openedBy(held) > 300;
    },
  },
  {
    name: 'takes all event streams of tenants together with two other tenants',
    without: sharesWithout(streamsKept, 'kept: 200', 'kept: 0'),
    async succeeds(server) {
      const held = await crowd(server, ['crowd-1', 'crowd-2', 'crowd-3'], 300);
      const late = await holdStreams(server.url, await createTenantToken(server, 'latecomer'), 5);
      closeAll([...held, late]);
      return late.opened === 0;
    },
  },
  {
    name: "takes the event streams of the fleet's operators together with other tenants",
    without: sharesWithout(streams, 'all_tenants: 800', 'all_tenants: 1_400'),
    async succeeds(server) {
      const held = await crowd(server, ['crowd-4', 'crowd-5', 'crowd-6', 'crowd-7'], 300);
      const admin = await holdStreams(server.url, server.token, 1);
      closeAll([...held, admin]);
      return admin.opened === 0;
    },
  },
  {
    name: 'reads more long histories at once than one token may',
    without: sharesWithout(catchUps, 'one_token: 3', 'one_token: 100'),
    async succeeds(server) {
      const held = await holdStreams(server.url, await longHistory(server, 'reader'), 4, '0-0');
      held.close();
      return held.opened > 3;
    },
  },
  {
    name: 'reads more long histories at once than one tenant may, with several tokens',
    without: sharesWithout(catchUps, 'one_tenant: 4', 'one_tenant: 100'),
    async succeeds(server) {
      const bearer = await longHistory(server, 'readers');
      const other = await createTenantToken(server, 'readers', 'readers-2');
      const held = [await holdStreams(server.url, bearer, 3, '0-0'), await holdStreams(server.url, other, 2, '0-0')];
      closeAll(held);
      return openedBy(held) > 4;
    },
  },
];
