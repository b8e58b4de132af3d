/**
 * A tenant takes the event streams that others need, or reads long histories in too many of them.
 */
import { openDatabase } from '../../../src/store/pg/database.ts';
import type { SpawnedServer } from '../../support/server.ts';
import type { Attack, SourceEdit } from '../support/attack.ts';
import { createPoolWithToken } from '../support/floods.ts';
import { type HeldStreams, holdStreams } from '../support/held-streams.ts';
import { createTenantToken } from '../support/tenancy.ts';

const placesFile = 'src/api/limits/held/places.ts';
/** A number may occur several times in the file, so the edit replaces the whole line of limits. */
const editLimit = (line: string, find: string, replace: string): SourceEdit[] => {
  if (!line.includes(find)) throw new Error(`${find} is not in ${line}`);
  return [{ file: placesFile, find: line, replace: line.replace(find, replace) }];
};
const streamLimits = 'total: 1_200, all_tenants: 800, one_tenant: 300, one_token: 200';
const streamReserve = 'reserved: 200, few: 10';
const catchUpLimits = 'total: 12, all_tenants: 8, one_tenant: 4, one_token: 3';

const countOpened = (held: HeldStreams[]) => held.reduce((sum, { opened }) => sum + opened, 0);
const closeAll = (held: HeldStreams[]) => {
  for (const each of held) each.close();
};

/** Opens the given number of streams for each tenant, half of them with a second token. */
async function openForTenants(server: SpawnedServer, tenants: string[], each: number): Promise<HeldStreams[]> {
  const held: HeldStreams[] = [];
  for (const tenant of tenants)
    for (const name of [`${tenant}-a`, `${tenant}-b`])
      held.push(await holdStreams(server.url, await createTenantToken(server, tenant, name), each / 2));
  return held;
}

/** Writes more facts about the tenant's allocation than an unread connection can buffer. */
async function createLongHistory(server: SpawnedServer, tenant: string): Promise<string> {
  await createPoolWithToken(server, `${tenant}-pool`);
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
    without: editLimit(streamLimits, 'one_token: 200', 'one_token: 1_200'),
    async succeeds(server) {
      const held = await holdStreams(server.url, await createTenantToken(server, 'crowd', 'crowd-of-one'), 220);
      held.close();
      return held.opened > 200;
    },
  },
  {
    name: 'holds more event streams than one tenant may, with several tokens',
    without: editLimit(streamLimits, 'one_tenant: 300', 'one_tenant: 1_200'),
    async succeeds(server) {
      const held = await openForTenants(server, ['crowd'], 360);
      closeAll(held);
      return countOpened(held) > 300;
    },
  },
  {
    name: 'takes all event streams for tenants, together with two other tenants',
    without: editLimit(streamReserve, 'reserved: 200', 'reserved: 0'),
    async succeeds(server) {
      const held = await openForTenants(server, ['crowd-1', 'crowd-2', 'crowd-3'], 300);
      const latecomer = await holdStreams(server.url, await createTenantToken(server, 'latecomer'), 5);
      closeAll([...held, latecomer]);
      return latecomer.opened === 0;
    },
  },
  {
    name: "takes the event streams for the fleet's operators, together with other tenants",
    without: editLimit(streamLimits, 'all_tenants: 800', 'all_tenants: 1_400'),
    async succeeds(server) {
      const held = await openForTenants(server, ['crowd-4', 'crowd-5', 'crowd-6', 'crowd-7'], 300);
      const admin = await holdStreams(server.url, server.token, 1);
      closeAll([...held, admin]);
      return admin.opened === 0;
    },
  },
  {
    name: 'reads more long histories at once than one token may',
    without: editLimit(catchUpLimits, 'one_token: 3', 'one_token: 100'),
    async succeeds(server) {
      const held = await holdStreams(server.url, await createLongHistory(server, 'reader'), 4, '0-0');
      held.close();
      return held.opened > 3;
    },
  },
  {
    name: 'reads more long histories at once than one tenant may, with several tokens',
    without: editLimit(catchUpLimits, 'one_tenant: 4', 'one_tenant: 100'),
    async succeeds(server) {
      const bearer = await createLongHistory(server, 'readers');
      const other = await createTenantToken(server, 'readers', 'readers-2');
      const held = [await holdStreams(server.url, bearer, 3, '0-0'), await holdStreams(server.url, other, 2, '0-0')];
      closeAll(held);
      return countOpened(held) > 4;
    },
  },
];
