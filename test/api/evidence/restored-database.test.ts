/**
 * A server starts on a dump that was restored into another cluster, and clients come back with the
 * cursors that they had before.
 */
import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../../src/store/pg/database.ts';
import { freshCluster, restoreInto, useTransactionIds } from '../../support/restored-store.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { type EventReader, evidenceCursors, openEvents } from '../support/event-reader.ts';

const declare = (server: TestServer, pool: string) =>
  server.client.call('pool-put', { params: { pool }, body: { driver: 'external' } });

const follow = async (server: TestServer, cursor?: string): Promise<EventReader> => {
  const reader = await openEvents(server.url, server.token, '?topics=evidence', cursor);
  onTestFinished(() => reader.close());
  return reader;
};

const waitForPool = (reader: EventReader, pool: string) =>
  reader.waitFor(`the fact about ${pool}`, ({ data }) => {
    const { params, pool: name } = (data.data ?? {}) as { params?: { pool?: string }; pool?: string };
    return data.kind === 'pool.declared' && (name ?? params?.pool) === pool;
  });

const resets = (reader: EventReader) => reader.events.filter(({ name }) => name === 'reset');

test('clients continue from cursors of before the restore, or are sent a reset', async () => {
  const cluster = await freshCluster();
  onTestFinished(() => cluster.stop());
  const before = await inProcessServer();
  onTestFinished(() => before.stop());
  const source = openDatabase({ url: before.database_url });
  await useTransactionIds(source, 20_000);
  const first = await follow(before, '0-0');
  await declare(before, 'early');
  const early = await waitForPool(first, 'early');
  await declare(before, 'backed-up');
  await waitForPool(first, 'backed-up');
  await restoreInto(cluster.url, source);
  const [{ cursor: last } = { cursor: '' }] = await source.query<{ cursor: string }>(
    `select xid || '-' || seq as cursor from evidence order by xid desc, seq desc limit 1`,
  );
  await declare(before, 'after-the-backup');
  const lost = await waitForPool(first, 'after-the-backup');
  await source.close();
  await before.stop();

  const server = await inProcessServer({ database_url: cluster.url });
  onTestFinished(() => server.stop());
  await declare(server, 'after-the-restore');

  const all = await follow(server, '0-0');
  const newest = await waitForPool(all, 'after-the-restore');
  const history = evidenceCursors(all).slice(0, evidenceCursors(all).indexOf(newest.id ?? '') + 1);
  expect(new Set(history).size).toBe(history.length);
  const from = (cursor: string) => history.slice(history.indexOf(cursor) + 1);
  expect(history).toContain(last);

  const resumed = await follow(server, early.id ?? '');
  await waitForPool(resumed, 'after-the-restore');
  expect(evidenceCursors(resumed).slice(0, from(early.id ?? '').length)).toEqual(from(early.id ?? ''));
  expect(from(early.id ?? '').length).toBeGreaterThan(1);
  expect(resets(resumed)).toEqual([]);

  const ahead = await follow(server, lost.id ?? '');
  await waitForPool(ahead, 'after-the-restore');
  expect(evidenceCursors(ahead).slice(0, from(last).length)).toEqual(from(last));
  expect(resets(ahead)).toEqual([{ id: null, name: 'reset', data: { reason: 'history_lost' } }]);

  const audit = await server.client.call('audit-list', { query: { limit: 1 } });
  const pools: unknown[] = [];
  for (let cursor = audit.next_cursor; cursor !== null; ) {
    const page = await server.client.call('audit-list', { query: { limit: 1, cursor } });
    pools.push(...page.items.map(({ kind }) => kind));
    cursor = page.next_cursor;
  }
  expect(pools.filter((kind) => kind === 'pool.declared').length).toBeGreaterThanOrEqual(2);
});
