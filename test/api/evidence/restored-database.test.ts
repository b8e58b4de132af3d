/**
 * A server starts on a dump that was restored into another cluster, and only observes until a
 * person ends the restoration. Clients reconnect with cursors from before the restore.
 */
import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../../src/store/pg/database.ts';
import { freshCluster, restoreInto, useTransactionIds } from '../../support/restored-store.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
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

test('clients continue from a cursor that the dump contains, and get a reset for a later one', async () => {
  const cluster = await freshCluster();
  onTestFinished(() => cluster.stop());
  const formerServer = await inProcessServer();
  onTestFinished(() => formerServer.stop());
  const source = openDatabase({ url: formerServer.database_url });
  await useTransactionIds(source, 20_000);
  const formerReader = await follow(formerServer, '0-0');
  await declare(formerServer, 'early');
  const earlyFact = await waitForPool(formerReader, 'early');
  await declare(formerServer, 'backed-up');
  await waitForPool(formerReader, 'backed-up');
  await restoreInto(cluster.url, source);
  const [{ cursor: last } = { cursor: '' }] = await source.query<{ cursor: string }>(
    `select xid || '-' || seq as cursor from evidence order by xid desc, seq desc limit 1`,
  );
  await declare(formerServer, 'after-the-backup');
  const lostFact = await waitForPool(formerReader, 'after-the-backup');
  await source.close();
  await formerServer.stop();

  const server = await inProcessServer({ database_url: cluster.url });
  onTestFinished(() => server.stop());
  await expect(declare(server, 'after-the-restore')).rejects.toMatchObject({ problem: { code: 'restoration_open' } });
  await server.client.call('restoration-end', { body: { reason: 'this test has no machines', force: true } });
  await until('the server to act', () =>
    declare(server, 'after-the-restore').then(
      () => true,
      () => false,
    ),
  );

  const reader = await follow(server, '0-0');
  const newest = await waitForPool(reader, 'after-the-restore');
  const history = evidenceCursors(reader).slice(0, evidenceCursors(reader).indexOf(newest.id ?? '') + 1);
  expect(new Set(history).size).toBe(history.length);
  const cursorsAfter = (cursor: string) => history.slice(history.indexOf(cursor) + 1);
  expect(history).toContain(last);

  const resumedReader = await follow(server, earlyFact.id ?? '');
  await waitForPool(resumedReader, 'after-the-restore');
  expect(evidenceCursors(resumedReader).slice(0, cursorsAfter(earlyFact.id ?? '').length)).toEqual(
    cursorsAfter(earlyFact.id ?? ''),
  );
  expect(cursorsAfter(earlyFact.id ?? '').length).toBeGreaterThan(1);
  expect(resets(resumedReader)).toEqual([]);

  const ahead = await follow(server, lostFact.id ?? '');
  await waitForPool(ahead, 'after-the-restore');
  expect(evidenceCursors(ahead).slice(0, cursorsAfter(last).length)).toEqual(cursorsAfter(last));
  expect(resets(ahead)).toEqual([{ id: null, name: 'reset', data: { reason: 'history_lost' } }]);

  const audit = await server.client.call('audit-list', { query: { limit: 1 } });
  const kinds: unknown[] = [];
  for (let cursor = audit.next_cursor; cursor !== null; ) {
    const page = await server.client.call('audit-list', { query: { limit: 1, cursor } });
    kinds.push(...page.items.map(({ kind }) => kind));
    cursor = page.next_cursor;
  }
  expect(kinds.filter((kind) => kind === 'pool.declared').length).toBeGreaterThanOrEqual(2);
});
