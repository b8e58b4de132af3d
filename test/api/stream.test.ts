/**
 * The stream delivers every fact once and in order to the readers that may see it, however often
 * they reconnect.
 */
import net from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/until.ts';
import { callRoute, expectProblem } from './support/calls.ts';
import { type EventReader, evidenceCursors, openEvents } from './support/event-reader.ts';
import type { Machine } from './support/machine.ts';
import {
  externalPool,
  type TenantFixture,
  tenantFixture,
  waitForOperations,
  waitUntilActive,
} from './support/tenants.ts';

let fixture: TenantFixture;
beforeAll(async () => {
  fixture = await tenantFixture();
});
afterAll(() => fixture.stop());

const recordAsMachine = (machine: Machine, kind: string, data: Record<string, unknown> = {}) =>
  machine.call('agent-evidence', {
    body: { facts: [{ at: '2030-01-01T00:00:00Z', layer: 'node', kind, summary: kind, data }] },
  });

/** Records a fact with a fleet token, which has no write limit. */
const recordAsOperator = (kind: string, data: Record<string, unknown> = {}) =>
  fixture.client.call('evidence-create', {
    body: { facts: [{ at: '2030-01-01T00:00:00Z', layer: 'transport', kind, summary: kind, data }] },
  });

/** The facts committed after a cursor, in commit order. */
async function readCommittedAfter(cursor: string): Promise<string[]> {
  const [xid, seq] = cursor.split('-');
  const rows = await fixture.tables.query<{ cursor: string }>(
    `select xid::text || '-' || seq as cursor
     from evidence
     where (xid, seq) > ($1::text::xid8, $2::bigint)
     order by xid, seq`,
    [xid, seq],
  );
  return rows.map((row) => row.cursor);
}

const waitForKind = (reader: EventReader, kind: string) =>
  reader.waitFor(`the fact ${kind}`, ({ data }) => data.kind === kind);

describe('a resumed stream', () => {
  it('loses and repeats no fact while facts are being written', async () => {
    const evidence = '?topics=evidence';
    const openReader = await openEvents(fixture.url, fixture.token, evidence);
    const start = (await openReader.waitFor('the first position', ({ name }) => name === 'position')).id ?? '';

    const cursors: string[] = [];
    let hasEnded = false;
    const reconnecting = (async () => {
      for (let cursor = start; ; ) {
        const isLast = hasEnded;
        const reader = await openEvents(fixture.url, fixture.token, evidence, cursor);
        if (isLast) await waitForKind(reader, 'the.end');
        else await until('two facts', () => evidenceCursors(reader).length >= 2 || hasEnded, { every_ms: 1 });
        await reader.close();
        cursor = reader.lastId();
        cursors.push(...evidenceCursors(reader));
        if (isLast) return;
      }
    })();

    const writers = [fixture.acme, fixture.globex].map(async ({ machine, client, name }) => {
      for (let round = 0; round < 60; round++) {
        await recordAsMachine(machine, `${name}.${round}`);
        if (round % 20 === 0) await client.call('allocation-create', { body: { pool: externalPool } });
      }
    });
    await Promise.all(writers);
    const waitingAllocations = await fixture.client.call('allocation-list', { query: { status: 'requested' } });
    for (const { allocation_id } of waitingAllocations.items)
      await fixture.client.call('allocation-release', { params: { id: allocation_id } });
    await waitForOperations(fixture.client);
    hasEnded = true;
    await recordAsMachine(fixture.acme.machine, 'the.end');
    await reconnecting;
    await waitForKind(openReader, 'the.end');
    const committedCursors = await readCommittedAfter(start);
    const expected = committedCursors.slice(0, evidenceCursors(openReader).length);
    expect(expected.length).toBeGreaterThan(120);
    expect(evidenceCursors(openReader)).toEqual(expected);
    expect(cursors).toEqual(committedCursors.slice(0, cursors.length));
    expect(cursors.length).toBeGreaterThanOrEqual(expected.length);
    await openReader.close();
  });

  it('delivers the whole history from the beginning, then live facts', async () => {
    const reader = await openEvents(fixture.url, fixture.token, '?topics=evidence&cursor=0-0');
    await recordAsMachine(fixture.acme.machine, 'after.history');
    await waitForKind(reader, 'after.history');
    expect(evidenceCursors(reader)).toEqual((await readCommittedAfter('0-0')).slice(0, evidenceCursors(reader).length));
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

describe('a reader', () => {
  it('gets only the facts that its query selects', async () => {
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
    await recordAsMachine(acme.machine, 'of.acme');
    await recordAsMachine(globex.machine, 'of.globex');
    await waitForKind(readers.all, 'of.globex');
    await waitForKind(readers.pool, 'of.globex');
    await waitForKind(readers.node, 'of.acme');
    await waitForKind(readers.allocation, 'of.acme');
    await readers.operation.waitFor('the operation', ({ name }) => name === 'operation');
    const kinds = (reader: EventReader) => reader.events.map(({ data }) => data.kind);
    expect(kinds(readers.node)).not.toContain('of.globex');
    expect(kinds(readers.allocation)).not.toContain('of.globex');
    const operationFacts = readers.operation.events.filter(({ name }) => name === 'evidence');
    expect(new Set(operationFacts.map(({ data }) => data.workflow_id))).toEqual(new Set([workflow_id]));
    expect(readers.node.events.find(({ name }) => name === 'node')?.data.node_id).toBe(node_id);
    const names = (reader: EventReader) => new Set(reader.events.map(({ name }) => name));
    expect(names(readers.all)).toEqual(new Set(['position', 'evidence']));
    expect(names(readers.allocation)).toEqual(new Set(['position', 'evidence', 'node']));
    expect(names(readers.otherPool)).toEqual(new Set(['position']));
    for (const reader of Object.values(readers)) await reader.close();
  });

  it('gets only facts of its tenant, live and from history, even after a node changed tenants', async () => {
    const { acme, globex } = fixture;
    // The node of acme is released and goes to globex.
    const { allocation } = await acme.client.call('allocation-release', {
      params: { id: acme.allocation.allocation_id },
    });
    await acme.machine.work(async () => {
      const current = await acme.client.call('allocation-get', { params: { id: allocation.allocation_id } });
      return current.status === 'released';
    });
    const liveAcmeReader = await openEvents(fixture.url, acme.token);
    const createReply = await globex.client.call('allocation-create', { body: { pool: externalPool, name: 'moved' } });
    const movedAllocation = await waitUntilActive(globex.client, createReply.allocation.allocation_id);
    expect(movedAllocation.node_id).toBe(acme.machine.node_id);
    await until('the replica to know the new tenant', async () => {
      await recordAsMachine(acme.machine, 'words.of.globex');
      const { items } = await globex.client.call('timeline-get', {
        query: { allocation_id: movedAllocation.allocation_id, kind: 'words.of.globex' },
      });
      return items.length > 0;
    });
    await acme.machine.log(100, 'said to globex only');

    const globexReader = await openEvents(fixture.url, globex.token, '?cursor=0-0');
    await waitForKind(globexReader, 'words.of.globex');
    const acmeReader = await openEvents(fixture.url, acme.token, '?cursor=0-0');
    const fleetReader = await openEvents(fixture.url, fixture.token, '?cursor=0-0&topics=evidence');
    await waitForKind(fleetReader, 'words.of.globex');
    const lastCursor = evidenceCursors(fleetReader).at(-1) ?? '';
    await acmeReader.waitFor(
      'the same position',
      ({ id }) => id !== null && BigInt(id.split('-')[0] ?? 0) >= BigInt(lastCursor.split('-')[0] ?? 0),
    );

    for (const reader of [acmeReader, liveAcmeReader]) {
      const text = JSON.stringify(reader.events);
      for (const foreign of ['globex', movedAllocation.allocation_id, 'words.of.globex'])
        expect(text).not.toContain(foreign);
    }
    expect(JSON.stringify(acmeReader.events)).toContain(acme.allocation.allocation_id);
    const text = JSON.stringify(globexReader.events);
    for (const foreign of ['acme-claim', acme.allocation.allocation_id, 'keeps this to itself'])
      expect(text).not.toContain(foreign);

    const node = { params: { id: acme.machine.node_id } };
    const readLogs = async (bearer: string) => (await callRoute(fixture.url, 'node-logs', node, { bearer })).text;
    expect(await readLogs(acme.token)).toContain('acme keeps this to itself');
    expect(await readLogs(acme.token)).not.toContain('said to globex only');
    expect(await readLogs(globex.token)).toContain('said to globex only');
    expect(await readLogs(globex.token)).not.toContain('acme keeps this to itself');
    const timeline = (
      await callRoute(fixture.url, 'node-timeline', { ...node, query: { limit: 500 } }, { bearer: acme.token })
    ).text;
    expect(timeline).not.toContain('words.of.globex');
    expect(timeline).not.toContain(movedAllocation.allocation_id);
    expectProblem(await callRoute(fixture.url, 'node-get', node, { bearer: acme.token }), 'node_not_found');
    for (const reader of [liveAcmeReader, acmeReader, globexReader, fleetReader]) await reader.close();
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

  it('is closed if its reader does not read, while other streams stay open', { timeout: 180_000 }, async () => {
    const quick = await openEvents(fixture.url, fixture.token, '?topics=evidence');
    const { hostname, port } = new URL(fixture.url);
    const slowSocket = net.connect(Number(port), hostname);
    slowSocket.on('error', () => undefined);
    slowSocket.write(`GET /v1/stream HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${fixture.token}\r\n\r\n`);
    await new Promise((resolve) => slowSocket.once('data', resolve));
    slowSocket.pause();
    // The writer waits for the quick reader, so that only the slow one falls behind.
    for (let round = 0; round < 120; round++) {
      await recordAsOperator(`large.${round}`, { text: 'x'.repeat(200_000) });
      await waitForKind(quick, `large.${round}`);
    }
    await recordAsOperator('after.large');
    await waitForKind(quick, 'after.large');
    const closed = new Promise((resolve) => slowSocket.once('close', () => resolve('closed')));
    slowSocket.resume();
    const stillOpen = new Promise((resolve) =>
      slowSocket.on('data', (chunk) => chunk.includes('after.large') && resolve('still open')),
    );
    expect(await Promise.race([closed, stillOpen])).toBe('closed');
    slowSocket.destroy();
    await quick.close();
  });
});
