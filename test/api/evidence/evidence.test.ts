/**
 * Tests facts from outside: a tenant may record them only about its own resources, and some kinds
 * are reserved. Also tests the past state of a node, the comparison of rows with their evidence,
 * and the redaction of secrets.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { moment, now, systemClock } from '../../../src/base/clock.ts';
import type { SignedTask } from '../../../src/contract/agent/agent.ts';
import type { Driver } from '../../../src/drivers/driver.ts';
import { until } from '../../support/until.ts';
import { callRoute, expectProblem } from '../support/calls.ts';
import { readyMachine, type TenantFixture, tenantFixture } from '../support/tenants.ts';

const token = `swt_${'Planted0'.repeat(5)}abc`;
const password = 'plantedPassword77';
const customSecret = 'ACME-31337';
const leakingText = `Authorization: Bearer ${token} password=${password} and ${customSecret}`;
const plantedSecrets = [token, password, customSecret];

let fixture: TenantFixture;
let directory: string;

/** Replaces the driver's diagnosis with console output that contains the planted secrets. */
const withConsoleOutput = (driver: Driver): Driver => ({
  ...driver,
  diagnose: async () => ({
    summary: `the console says ${leakingText}`,
    certain: false,
    attachments: [{ name: 'console', text: `login\n${leakingText}\n` }],
  }),
});

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-redact-'));
  const config = join(directory, 'slipway.yaml');
  await writeFile(config, "redact: {patterns: ['ACME-\\d+']}\n");
  fixture = await tenantFixture({
    args: ['--config', config],
    composition: {
      drivers: (built) => new Map([...built].map(([name, driver]) => [name, withConsoleOutput(driver)])),
      // The drift rule would retire the quarantined node before a test reads it.
      environment: (built) => ({ ...built, drift: { ...built.drift, every_seconds: 3600 } }),
    },
  });
});
afterAll(async () => {
  await fixture.stop();
  await rm(directory, { recursive: true });
});

const fact = (fields: object = {}) => ({ layer: 'transport', kind: 'ingress.refused', summary: 'a 502', ...fields });
const postFacts = (bearer: string, ...facts: object[]) =>
  callRoute(fixture.url, 'evidence-create', { body: { facts } }, { bearer });

describe('facts from outside', () => {
  it('appear on the timelines of the ids they name, with their actor', async () => {
    const { allocation, machine } = fixture.acme;
    const ids = {
      node_id: machine.node_id,
      node_instance_id: machine.node_instance_id,
      allocation_id: allocation.allocation_id,
      workflow_id: allocation.workflow_id ?? '',
      correlation_id: 'deploy-4711',
    };
    const answer = await postFacts(
      fixture.token,
      fact({ ...ids, at: '2030-01-01T00:00:00Z', data: { code: 502 } }),
      fact(),
    );
    expect(answer).toMatchObject({ status: 201, body: { facts: 2 } });
    for (const [id, value] of Object.entries(ids)) {
      const listedFact = await until(`the fact on the timeline of ${id}`, async () => {
        const { items } = await fixture.client.call('timeline-get', { query: { [id]: value, limit: 500 } });
        return items.find(({ kind }) => kind === 'ingress.refused');
      });
      expect(listedFact).toMatchObject({ ...ids, layer: 'transport', origin: 'person', actor: { kind: 'token' } });
      expect(listedFact.data).toEqual({ code: 502, reported_at: '2030-01-01T00:00:00Z' });
    }
  });

  it('are accepted from a tenant only about its own resources', async () => {
    const { acme, globex } = fixture;
    const { allocation_id } = acme.allocation;
    expect((await postFacts(acme.token, fact({ allocation_id, node_id: acme.machine.node_id }))).status).toBe(201);
    const snapshotBefore = await fixture.tables.snapshot();
    const cases: [string, object][] = [
      ['allocation_id', {}],
      ['allocation_id', { allocation_id: globex.allocation.allocation_id }],
      ['allocation_id', { allocation_id: 'alloc_none' }],
      ['node_id', { allocation_id, node_id: globex.machine.node_id }],
      ['node_instance_id', { allocation_id, node_instance_id: globex.machine.node_instance_id }],
      ['workflow_id', { allocation_id, workflow_id: globex.allocation.workflow_id }],
    ];
    for (const [id, ids] of cases) {
      const answer = await postFacts(acme.token, fact({ allocation_id }), fact(ids));
      expectProblem(answer, 'invalid_request', JSON.stringify(ids));
      expect(answer.body.errors, JSON.stringify(ids)).toEqual([
        expect.objectContaining({ path: `/body/facts/1/${id}` }),
      ]);
    }
    // Even facts from an operator of the whole fleet are refused if an id does not exist, or if the
    // ids do not belong together.
    expectProblem(await postFacts(fixture.token, fact({ node_id: 'node_none' })), 'invalid_request');
    expectProblem(
      await postFacts(
        fixture.token,
        fact({ node_id: acme.machine.node_id, node_instance_id: globex.machine.node_instance_id }),
      ),
      'invalid_request',
    );
    expect(await fixture.tables.snapshot()).toEqual(snapshotBefore);
  });

  it('are refused if they use a reserved kind or layer, set an origin, or are too large', async () => {
    const forgedFact = { data: { set: { status: 'retired' } }, node_id: fixture.acme.machine.node_id };
    for (const kind of ['node.retired', 'allocation.released', 'proof.clean', 'request.served']) {
      expectProblem(await postFacts(fixture.token, fact({ ...forgedFact, kind })), 'invalid_request', kind);
      const body = {
        facts: [{ at: '2026-01-01T00:00:00Z', layer: 'node', kind, summary: 'x', data: forgedFact.data }],
      };
      expectProblem(await fixture.acme.machine.call('agent-evidence', { body }), 'invalid_request', kind);
    }
    expectProblem(await postFacts(fixture.token, fact({ layer: 'rule' })), 'invalid_request');
    expectProblem(await postFacts(fixture.token, fact({ origin: 'internal' })), 'invalid_request');
    expectProblem(await postFacts(fixture.token, fact({ data: { long: 'x'.repeat(1024 * 1024) } })), 'body_too_large');
  });
});

describe('a node at a past moment', () => {
  const readStateAt = (bearer: string, at: string, id = fixture.acme.machine.node_id) =>
    callRoute(fixture.url, 'node-state', { params: { id }, query: { at } }, { bearer });

  it('is shown as it was, to callers that could see it at that moment', async () => {
    const { machine, allocation } = fixture.acme;
    const node = await fixture.client.call('node-get', { params: { id: machine.node_id } });
    const { occupancy: _, agent_version: __, last_seen_at: ___, reported, ...storedFields } = node;
    const at = now(systemClock).toISOString();
    const state = (await readStateAt(fixture.acme.token, at)).body;
    expect(state).toEqual({
      ...storedFields,
      reported_status: reported?.status,
      at: expect.any(String),
      cursor: expect.any(String),
    });
    const { items } = await fixture.client.call('node-timeline', {
      params: { id: machine.node_id },
      query: { kind: 'node.starting', limit: 1 },
    });
    const startedAt = items[0]?.at ?? '';
    expect((await readStateAt(fixture.token, startedAt)).body).toMatchObject({
      status: 'starting',
      allocation_id: null,
    });
    // No tenant had the node at that moment.
    expectProblem(await readStateAt(fixture.acme.token, startedAt), 'node_not_found');
    const soonAt = moment(systemClock.nowMs() + 60_000).toISOString();
    expectProblem(await readStateAt(fixture.globex.token, soonAt), 'node_not_found');
    // A moment slightly ahead counts as now; a later one is refused.
    const present = (await readStateAt(fixture.token, soonAt)).body as { at: string };
    expect(present.at < soonAt).toBe(true);
    expectProblem(await readStateAt(fixture.token, '2099-01-01T00:00:00Z'), 'invalid_request');
    expectProblem(await readStateAt(fixture.token, '2000-01-01T00:00:00Z'), 'node_not_found');
    expect(state.allocation_id).toBe(allocation.allocation_id);
  });

  it('is refused if retention deleted the evidence from that time', async () => {
    // Simulates that retention deleted old evidence. `session_replication_role` turns triggers off;
    // one of them requires a signed checkpoint.
    await fixture.tables.query(`
      set session_replication_role = replica;
      insert into evidence_cuts values ('gone', 'rule', '2010-01-01', now(), 1);
      reset session_replication_role`);
    expectProblem(await readStateAt(fixture.token, '2009-12-31T00:00:00Z'), 'evidence_cut');
    expect((await readStateAt(fixture.token, now(systemClock).toISOString())).status).toBe(200);
  });
});

describe('the store', () => {
  it('matches its evidence, and a write that bypasses the transitions is found', async () => {
    const verify = async () => {
      let page = await fixture.client.call('store-verify', { query: { limit: 1 } });
      const pages = [page];
      while (page.next_cursor) {
        page = await fixture.client.call('store-verify', { query: { limit: 1, cursor: page.next_cursor } });
        pages.push(page);
      }
      return {
        compared: pages.reduce((sum, { compared }) => sum + compared, 0),
        items: pages.flatMap(({ items }) => items),
      };
    };
    const { node_id } = fixture.globex.machine;
    expect(await verify()).toEqual({ compared: 4, items: [] });
    await fixture.tables.query(`update nodes set endpoint = 'http://elsewhere' where node_id = $1`, [node_id]);
    const pool = 'outside';
    // `ours` is the row, `theirs` what its evidence says.
    const difference = { subject: node_id, pool, ours: { endpoint: 'http://elsewhere' }, theirs: { endpoint: null } };
    expect((await verify()).items).toEqual([difference]);
    await fixture.tables.query('update nodes set endpoint = null where node_id = $1', [node_id]);
    expect((await verify()).items).toEqual([]);
    // The check also finds a missing row and a missing timeline. The row can be deleted only while
    // triggers are off, because foreign keys refer to it.
    const runWithoutTriggers = (...statements: string[]) =>
      fixture.tables.query(['set session_replication_role = replica', ...statements].join(';'));
    const { allocation_id } = fixture.globex.allocation;
    await runWithoutTriggers(
      `create table aside as select * from allocations where allocation_id = '${allocation_id}'`,
      'delete from allocations where allocation_id in (select allocation_id from aside)',
    );
    expect((await verify()).items).toEqual([{ subject: allocation_id, pool, ours: {}, theirs: { status: 'active' } }]);
    await runWithoutTriggers('insert into allocations select * from aside', 'drop table aside');
    await runWithoutTriggers(
      `create table aside as select * from evidence where node_id = '${node_id}' and kind like 'node.%'`,
      'delete from evidence where (xid, seq) in (select xid, seq from aside)',
    );
    expect((await verify()).items).toEqual([{ subject: node_id, pool, ours: { status: 'ready' }, theirs: {} }]);
    await runWithoutTriggers('insert into evidence select * from aside', 'drop table aside');
    expect((await verify()).items).toEqual([]);
    expectProblem(
      await callRoute(fixture.url, 'store-verify', { query: { cursor: 'tokens:' } }, { bearer: fixture.token }),
      'invalid_cursor',
    );
  });

  it('lists a quarantined node whose machine is proven gone', async () => {
    const { node_id, node_instance_id } = await readyMachine(fixture, 'left-behind');
    const body = { reason: 'odd noises' };
    await fixture.client.call('node-act', { params: { id: node_id, action: 'quarantine' }, body });
    const readUnretired = async () => (await fixture.client.call('store-verify', { query: { limit: 500 } })).unretired;
    expect(await readUnretired()).toEqual([]);
    await fixture.tables.query(
      `insert into evidence (at, layer, kind, summary, node_id, node_instance_id, origin)
       values (now(), 'provider', 'proof.absent', 'nothing is there', $1, $2, 'internal')`,
      [node_id, node_instance_id],
    );
    expect(await readUnretired()).toMatchObject([{ node_id, status: 'quarantined', proof: 'absent' }]);
  });
});

describe('a planted secret', () => {
  /** Answers the task for diagnostics, which include the environment of the machine. */
  async function answerDiagnostics(): Promise<void> {
    const { machine } = fixture.acme;
    const { body } = await machine.call('agent-task-next', { query: { wait: 5 } });
    const { task_id } = body.task as SignedTask;
    const params = { id: task_id };
    await machine.call('agent-task-progress', { params, body: { message: leakingText } });
    const result = { environment: { DB_PASSWORD: password, words: leakingText } };
    expect((await machine.call('agent-task-result', { params, body: { status: 'succeeded', result } })).status).toBe(
      200,
    );
  }

  it('is redacted in every table, while the text around it is kept', async () => {
    const { machine } = fixture.acme;
    const { node_id } = machine;
    const report = async (name: Parameters<typeof machine.call>[0], body: unknown) =>
      expect((await machine.call(name, { body })).status, name).toBe(200);
    await report('agent-heartbeat', {
      status: 'degraded',
      message: `overheated: ${leakingText}`,
      boot_stage: `stage ${token}`,
    });
    await report('agent-evidence', {
      facts: [
        {
          at: '2026-01-01T00:00:00Z',
          layer: 'node',
          kind: 'saw',
          summary: leakingText,
          data: { headers: { authorization: token } },
        },
      ],
    });
    await report('agent-boot', { stages: [{ name: `boot ${token}`, seconds: 1 }] });
    await report('agent-prerequisites', { results: [{ name: 'disk', ok: false, detail: leakingText }] });
    expect((await machine.log(2, `a line with ${leakingText}`)).status).toBe(200);
    expect(
      (
        await postFacts(
          fixture.token,
          fact({ summary: leakingText, data: { [customSecret]: leakingText, join_token: 'x' } }),
        )
      ).status,
    ).toBe(201);
    const diagnosticsReply = await fixture.client.call('node-act', {
      params: { id: node_id, action: 'collect-diagnostics' },
      body: { reason: `because ${leakingText}` },
    });
    await answerDiagnostics();
    const workflow_id = diagnosticsReply.operation?.workflow_id ?? '';
    await until('the diagnostics of the provider and of the agent', async () => {
      const { items } = await fixture.client.call('timeline-get', { query: { workflow_id, limit: 500 } });
      return items.filter(({ kind }) => kind === 'evidence.frozen').length === 2;
    });
    await fixture.client.call('maintenance-put', {
      params: { name: 'planted' },
      body: { zone: 'nowhere', ends_at: '2099-01-01T00:00:00Z', reason: leakingText },
    });
    const labelled = await fixture.client.call('allocation-create', {
      body: { pool: 'outside', name: 'labelled', labels: { password, words: leakingText } },
    });
    await until('the heartbeat to be stored', async () => {
      const rows = await fixture.tables.query(`select 1 from heartbeats where reported::text like '%overheated%'`);
      return rows.length > 0;
    });

    const tables = await fixture.tables.query<{ name: string }>(
      `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
       where table_schema in ('public', 'dbos') and table_type = 'BASE TABLE'`,
    );
    for (const secret of plantedSecrets)
      for (const { name } of tables) {
        const rows = await fixture.tables.query(`select t::text from ${name} t where t::text like $1`, [`%${secret}%`]);
        expect(rows, `${secret} in ${name}`).toEqual([]);
      }
    const { items } = await fixture.client.call('timeline-get', { query: { node_id, limit: 500 } });
    const redactedKinds = items.filter((each) => JSON.stringify(each).includes('[struck out]')).map(({ kind }) => kind);
    for (const kind of ['node.claim', 'saw', 'boot.stage', 'prerequisite.missing', 'task.succeeded', 'evidence.frozen'])
      expect(redactedKinds).toContain(kind);
    const lines = await fixture.client.call('node-logs', { params: { id: node_id }, query: { q: 'a line with' } });
    expect(lines.items[0]?.line).toMatch(/^a line with Authorization: Bearer \[struck out\]/);
    const { labels } = await fixture.client.call('allocation-get', {
      params: { id: labelled.allocation.allocation_id },
    });
    expect(labels.words).toMatch(/^Authorization: Bearer \[struck out\]/);
  });
});
