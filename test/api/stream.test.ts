/**
 * The stream delivers every fact once and in order, to readers that may see it, however often they
 * reconnect.
 */
import net from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/until.ts';
import { callRoute, expectProblem } from './support/calls.ts';
import { type EventReader, facts, openEvents } from './support/event-reader.ts';
import type { Machine } from './support/machine.ts';
import { activeOne, externalPool, operationsAtRest, type TenantFixture, tenantFixture } from './support/tenants.ts';

let fixture: TenantFixture;
beforeAll(async () => {
  fixture = await tenantFixture();
});
afterAll(() => fixture.stop());

const say = (machine: Machine, kind: string, data: Record<string, unknown> = {}) =>
  machine.call('agent-evidence', {
    body: { facts: [{ at: '2030-01-01T00:00:00Z', layer: 'node', kind, summary: kind, data }] },
  });

/** With a fleet token, which has no write limit. */
const state = (kind: string, data: Record<string, unknown> = {}) =>
  fixture.client.call('evidence-create', {
    body: { facts: [{ at: '2030-01-01T00:00:00Z', layer: 'transport', kind, summary: kind, data }] },
  });

/** The facts committed after a cursor, in commit order. */
async function committedAfter(cursor: string): Promise<string[]> {
  const [xid, seq] = cursor.split('-');
  const rows = await fixture.tables.query<{ cursor: string }>(
    `select xid::text || '-' || seq as cursor from evidence where (xid, seq) > ($1::text::xid8, $2::bigint) order by xid, seq`,
    [xid, seq],
  );
  return rows.map((row) => row.cursor);
}

const sees = (reader: EventReader, kind: string) =>
  reader.waitFor(`the fact ${kind}`, ({ data }) => data.kind === kind);

describe('resuming', () => {
  it('loses and repeats nothing during changes', async () => {
    const evidence = '?topics=evidence';
    const steady = await openEvents(fixture.url, fixture.token, evidence);
    const start = (await steady.waitFor('the first position', ({ name }) => name === 'position')).id ?? '';

    const seen: string[] = [];
    let ended = false;
    const restless = (async () => {
      for (let cursor = start; ; ) {
        const last = ended;
        const reader = await openEvents(fixture.url, fixture.token, evidence, cursor);
        if (last) await sees(reader, 'the.end');
        else await until('two rows', () => facts(reader).length >= 2 || ended, { every_ms: 1 });
        await reader.close();
        cursor = reader.lastId();
        seen.push(...facts(reader));
        if (last) return;
      }
    })();

    const writers = [fixture.acme, fixture.globex].map(async ({ machine, client, name }) => {
      for (let round = 0; round < 60; round++) {
        await say(machine, `${name}.${round}`);
        if (round % 20 === 0) await client.call('allocation-create', { body: { pool: externalPool } });
      }
    });
    await Promise.all(writers);
    const waiting = await fixture.client.call('allocation-list', { query: { status: 'requested' } });
    for (const { allocation_id } of waiting.items)
      await fixture.client.call('allocation-release', { params: { id: allocation_id } });
    await operationsAtRest(fixture.client);
    ended = true;
    await say(fixture.acme.machine, 'the.end');
    await restless;
    await sees(steady, 'the.end');
    const committed = await committedAfter(start);
    const upTo = committed.slice(0, facts(steady).length);
    expect(upTo.length).toBeGreaterThan(120);
    expect(facts(steady)).toEqual(upTo);
    expect(seen).toEqual(committed.slice(0, seen.length));
    expect(seen.length).toBeGreaterThanOrEqual(upTo.length);
    await steady.close();
  });

  it('delivers the whole history from the beginning, then live facts', async () => {
    const reader = await openEvents(fixture.url, fixture.token, '?topics=evidence&cursor=0-0');
    await say(fixture.acme.machine, 'after.history');
    await sees(reader, 'after.history');
    expect(facts(reader)).toEqual((await committedAfter('0-0')).slice(0, facts(reader).length));
    await reader.close();
  });

  it('refuses an invalid cursor', async () => {
    for (const cursor of ['nonsense', '1', '99999999999999999999-0', '1-1; drop table nodes', '-1-1']) {
      expectProblem(
        await callRoute(fixture.url, 'stream-open', { query: { cursor } }, { bearer: fixture.token }),
        'invalid_cursor',
      );
      const headers = { 'last-event-id': cursor };
      expectProblem(
        await callRoute(fixture.url, 'stream-open', {}, { bearer: fixture.token, headers }),
        'invalid_cursor',
      );
    }
  });
});

describe('what a reader gets', () => {
  it('is filtered by its query', async () => {
    const { acme, globex } = fixture;
    const { node_id, allocation_id, workflow_id } = acme.allocation;
    const queries = {
      all: '?topics=evidence',
      node: `?node_id=${node_id}`,
      allocation: `?allocation_id=${allocation_id}&topics=evidence,nodes`,
      operation: `?workflow_id=${workflow_id}&cursor=0-0`,
      pool: `?pool=${externalPool}&topics=evidence`,
      otherPool: '?pool=local',
    };
    const readers = Object.fromEntries(
      await Promise.all(
        Object.entries(queries).map(async ([name, query]) => [
          name,
          await openEvents(fixture.url, fixture.token, query),
        ]),
      ),
    ) as Record<keyof typeof queries, EventReader>;
    await say(acme.machine, 'of.acme');
    await say(globex.machine, 'of.globex');
    await sees(readers.all, 'of.globex');
    await sees(readers.pool, 'of.globex');
    await sees(readers.node, 'of.acme');
    await sees(readers.allocation, 'of.acme');
    await readers.operation.waitFor('the operation', ({ name }) => name === 'operation');
    const kinds = (reader: EventReader) => reader.events.map(({ data }) => data.kind);
    expect(kinds(readers.node)).not.toContain('of.globex');
    expect(kinds(readers.allocation)).not.toContain('of.globex');
    const ofOperation = readers.operation.events.filter(({ name }) => name === 'evidence');
    expect(new Set(ofOperation.map(({ data }) => data.workflow_id))).toEqual(new Set([workflow_id]));
    expect(readers.node.events.find(({ name }) => name === 'node')?.data.node_id).toBe(node_id);
    const names = (reader: EventReader) => new Set(reader.events.map(({ name }) => name));
    expect(names(readers.all)).toEqual(new Set(['position', 'evidence']));
    expect(names(readers.allocation)).toEqual(new Set(['position', 'evidence', 'node']));
    expect(names(readers.otherPool)).toEqual(new Set(['position']));
    for (const reader of Object.values(readers)) await reader.close();
  });

  it('is limited to its tenant, live and from history, also after a node changed tenants', async () => {
    const { acme, globex } = fixture;
    // The node of acme is released and goes to globex.
    const { allocation } = await acme.client.call('allocation-release', {
      params: { id: acme.allocation.allocation_id },
    });
    await acme.machine.work(async () => {
      const now = await acme.client.call('allocation-get', { params: { id: allocation.allocation_id } });
      return now.status === 'released';
    });
    const live = await openEvents(fixture.url, acme.token);
    const created = await globex.client.call('allocation-create', { body: { pool: externalPool, name: 'moved' } });
    const moved = await activeOne(globex.client, created.allocation.allocation_id);
    expect(moved.node_id).toBe(acme.machine.node_id);
    await until('the replica to know the new tenant', async () => {
      await say(acme.machine, 'words.of.globex');
      const { items } = await globex.client.call('timeline-get', {
        query: { allocation_id: moved.allocation_id, kind: 'words.of.globex' },
      });
      return items.length > 0;
    });
    await acme.machine.log(100, 'said to globex only');

    const ofGlobex = await openEvents(fixture.url, globex.token, '?cursor=0-0');
    await sees(ofGlobex, 'words.of.globex');
    const ofAcme = await openEvents(fixture.url, acme.token, '?cursor=0-0');
    const all = await openEvents(fixture.url, fixture.token, '?cursor=0-0&topics=evidence');
    await sees(all, 'words.of.globex');
    const reached = facts(all).at(-1) ?? '';
    await ofAcme.waitFor(
      'the same position',
      ({ id }) => id !== null && BigInt(id.split('-')[0] ?? 0) >= BigInt(reached.split('-')[0] ?? 0),
    );

    for (const reader of [ofAcme, live]) {
      const text = JSON.stringify(reader.events);
      for (const foreign of ['globex', moved.allocation_id, 'words.of.globex']) expect(text).not.toContain(foreign);
    }
    expect(JSON.stringify(ofAcme.events)).toContain(acme.allocation.allocation_id);
    const text = JSON.stringify(ofGlobex.events);
    for (const foreign of ['acme-claim', acme.allocation.allocation_id, 'keeps this to itself'])
      expect(text).not.toContain(foreign);

    const node = { params: { id: acme.machine.node_id } };
    const logsOf = async (bearer: string) => (await callRoute(fixture.url, 'node-logs', node, { bearer })).text;
    expect(await logsOf(acme.token)).toContain('acme keeps this to itself');
    expect(await logsOf(acme.token)).not.toContain('said to globex only');
    expect(await logsOf(globex.token)).toContain('said to globex only');
    expect(await logsOf(globex.token)).not.toContain('acme keeps this to itself');
    const timeline = (
      await callRoute(fixture.url, 'node-timeline', { ...node, query: { limit: 500 } }, { bearer: acme.token })
    ).text;
    expect(timeline).not.toContain('words.of.globex');
    expect(timeline).not.toContain(moved.allocation_id);
    expectProblem(await callRoute(fixture.url, 'node-get', node, { bearer: acme.token }), 'node_not_found');
    for (const reader of [live, ofAcme, ofGlobex, all]) await reader.close();
  });
});

describe('an open stream', () => {
  it('sends keep-alives', async () => {
    const reader = await openEvents(fixture.url, fixture.token);
    await until('a keep-alive', () => reader.comments.includes('alive'), { seconds: 60 });
    await reader.close();
  });

  it('is closed when its token is revoked or expires', async () => {
    const [revoked, expiring] = [
      await fixture.tokenFor('viewer'),
      await fixture.tokenFor('viewer', { ttl_seconds: 5 }),
    ];
    const readers = [await openEvents(fixture.url, revoked.token), await openEvents(fixture.url, expiring.token)];
    await fixture.client.call('token-delete', { params: { id: revoked.token_id } });
    for (const reader of readers) await until('the stream to end', () => reader.ended(), { seconds: 60 });
  });

  it('is closed for a reader that does not read, and for no other', { timeout: 180_000 }, async () => {
    const quick = await openEvents(fixture.url, fixture.token, '?topics=evidence');
    const { hostname, port } = new URL(fixture.url);
    const slow = net.connect(Number(port), hostname);
    slow.on('error', () => undefined);
    slow.write(`GET /v1/stream HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${fixture.token}\r\n\r\n`);
    await new Promise((resolve) => slow.once('data', resolve));
    slow.pause();
    // At the pace of the quick reader, so that only the other one falls behind.
    for (let round = 0; round < 120; round++) {
      await state(`large.${round}`, { text: 'x'.repeat(200_000) });
      await sees(quick, `large.${round}`);
    }
    await state('after.large');
    await sees(quick, 'after.large');
    const closed = new Promise((resolve) => slow.once('close', () => resolve('let go')));
    slow.resume();
    const still = new Promise((resolve) =>
      slow.on('data', (chunk) => chunk.includes('after.large') && resolve('kept')),
    );
    expect(await Promise.race([closed, still])).toBe('let go');
    slow.destroy();
    await quick.close();
  });
});
