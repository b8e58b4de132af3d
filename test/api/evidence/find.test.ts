/**
 * Every id resolves to what it names, for callers that may see it. A tenant learns nothing about
 * resources of other tenants.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCli } from '../../../src/cli/testing/run-cli.ts';
import type { Client } from '../../../src/contract/client.ts';
import { until } from '../../support/until.ts';
import { externalPool, readyMachine, type Tenant, type TenantFixture, tenantFixture } from '../support/tenants.ts';

let fixture: TenantFixture;
beforeAll(async () => {
  fixture = await tenantFixture();
});
afterAll(() => fixture.stop());

const findThing = async (client: Client, id: string) => {
  const { items, ...answer } = await client.call('thing-find', { query: { id } });
  return { ...answer, ids: items.map((item) => item.id) };
};

/** Every id of a tenant's allocation and machine, each with the id it resolves to. */
const idsOf = ({ allocation, machine, name }: Tenant) => {
  const { allocation_id, workflow_id, correlation_id } = allocation;
  return {
    allocation_id: [allocation_id, allocation_id],
    claim: [`${name}-claim`, allocation_id],
    workflow_id: [workflow_id ?? '', workflow_id ?? ''],
    correlation_id: [correlation_id, allocation_id],
    node_id: [machine.node_id, machine.node_id],
    node_instance_id: [machine.node_instance_id, machine.node_id],
    machine: [`${name}-machine`, machine.node_id],
  } as const;
};

describe('any id', () => {
  it("resolves to what it names, for the fleet's operators and for its tenant", async () => {
    for (const [kind, [id, resolved]] of Object.entries(idsOf(fixture.acme)))
      for (const client of [fixture.client, fixture.acme.client]) {
        const { known, ids } = await findThing(client, id);
        expect({ known, ids }, kind).toEqual({ known: true, ids: expect.arrayContaining([resolved]) });
      }
    const { as_request, ids, meant } = await findThing(fixture.client, fixture.acme.allocation.correlation_id);
    expect(meant?.id).toBe(fixture.acme.allocation.allocation_id);
    expect(as_request).toBe(true);
    expect(ids).toContain(fixture.acme.allocation.workflow_id);
  });

  it('of another tenant gets the same answer as an id that does not exist', async () => {
    const unknownAnswer = await fixture.globex.client.call('thing-find', { query: { id: 'node_unknown' } });
    expect(unknownAnswer).toEqual({ known: false, as_request: false, items: [], meant: null, requests: [] });
    for (const [kind, [id]] of Object.entries(idsOf(fixture.acme)))
      expect(await fixture.globex.client.call('thing-find', { query: { id } }), kind).toEqual(unknownAnswer);
  });

  it('of an allocation lists every request that touched it', async () => {
    const { allocation, client } = fixture.acme;
    const { requests } = await client.call('thing-find', { query: { id: allocation.allocation_id } });
    expect(requests[0]).toMatchObject({ correlation_id: allocation.correlation_id, actor: expect.any(String) });
  });

  it('of a request finds its actions in the audit', async () => {
    const { correlation_id } = fixture.acme.allocation;
    await until('the request to be in the audit', async () => {
      const { items } = await fixture.client.call('audit-list', { query: { target_id: correlation_id } });
      return items.length > 0 && items.every((fact) => fact.correlation_id === correlation_id);
    });
  });
});

describe('any id on the command line', () => {
  const slipway = (token: string, ...args: string[]) =>
    runCli(args, { server: fixture.url, env: { SLIPWAY_TOKEN: token } });

  it('is accepted by logs, timeline and explain', async () => {
    const { acme } = fixture;
    for (const [kind, [id]] of Object.entries(idsOf(acme))) {
      const logs = await slipway(acme.token, 'logs', id);
      expect({ code: logs.code, stdout: logs.stdout }, `logs by ${kind}`).toEqual({
        code: 0,
        stdout: expect.stringContaining('acme keeps this to itself'),
      });
      const timeline = await slipway(acme.token, 'timeline', id);
      expect({ code: timeline.code, stderr: timeline.stderr }, `timeline by ${kind}`).toEqual({ code: 0, stderr: '' });
      const explanation = await slipway(acme.token, 'explain', id);
      expect(explanation.stdout, `explain by ${kind}`).toContain(acme.machine.node_id);
      expect((await slipway(fixture.globex.token, 'logs', id)).code, `logs of another tenant by ${kind}`).not.toBe(0);
    }
    const unknownResult = await slipway(acme.token, 'explain', 'fee1dead');
    expect(unknownResult).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('Nothing is known about fee1dead'),
    });
  });

  it("of a waiting allocation explains what it waits for, with the pool's state for the fleet's operators", async () => {
    const { client, token } = fixture.acme;
    const { allocation } = await client.call('allocation-create', { body: { pool: externalPool } });
    const id = allocation.allocation_id;
    const readExplanation = async (bearer: string) => {
      const { code, stdout, stderr } = await slipway(bearer, 'explain', id);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      return stdout.replaceAll(/\s+/g, ' ');
    };
    const tenantText = await until('the explanation to name the wait', async () => {
      const text = await readExplanation(token);
      return text.includes('Waiting for a free machine in the pool') ? text : undefined;
    });
    expect(tenantText).not.toMatch(/has \d machines|globex/);
    expect(await readExplanation(fixture.token)).toContain(
      `Pool ${externalPool} has 2 machines: 2 are held by other allocations. Slipway does not launch machines for this pool`,
    );
    await client.call('allocation-release', { params: { id } });
  });

  it("of a released allocation shows its tenant the release, but not the machine's next holder", async () => {
    const { globex, acme } = fixture;
    const id = globex.allocation.allocation_id;
    await globex.client.call('allocation-release', { params: { id }, body: { reason: 'no longer needed' } });
    await globex.machine.work(
      async () => (await globex.client.call('allocation-get', { params: { id } })).status === 'released',
    );
    await readyMachine(fixture, 'another');
    for (const shownId of [id, globex.machine.node_id, globex.machine.node_instance_id]) {
      const { code, stdout, stderr } = await until(`explain ${shownId} to show the reason of the release`, async () => {
        const result = await slipway(globex.token, 'explain', shownId);
        return result.stdout.includes('no longer needed') ? result : undefined;
      });
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(stdout).toMatch(new RegExp(`${id} .*released for`));
      expect(stdout).toMatch(/released +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ {2}\((just now|\d+s ago)\)/);
      expect(stdout).toMatch(/by +test-\d/);
      expect(stdout).toMatch(new RegExp(`See what happened: +\\S*slipway timeline ${id}`));
      expect(stdout).not.toContain(acme.name);
    }
    const doctor = await slipway(globex.token, 'doctor', id);
    expect(doctor.stderr).toContain(`${id} is released, so it has no machine to examine`);
    const { requests } = await globex.client.call('thing-find', { query: { id } });
    expect(requests.length).toBeGreaterThan(1);
    const { stdout } = await slipway(globex.token, 'allocation', id);
    for (const { correlation_id } of [globex.allocation, ...requests]) expect(stdout).toContain(correlation_id);
  });
});
