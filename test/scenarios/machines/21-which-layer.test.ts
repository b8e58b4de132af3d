/**
 * Each layer between a machine and the server is broken in turn. Doctor names the layer from both
 * ends, and so does the API.
 */
import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, vi } from 'vitest';
import { type FaultyProxy, faultyProxy, type ProxyFault } from '../../../scripts/demo/faulty-proxy.ts';
import { agentDoctor } from '../../../src/agent/doctor.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { runCli } from '../../../src/cli/testing/run-cli.ts';
import type { LayerReport } from '../../../src/doctor/examination.ts';
import { examine } from '../../../src/doctor/examine.ts';
import { failureOf } from '../../../src/doctor/render.ts';
import type * as ServerChecks from '../../../src/doctor/server-checks.ts';
import type * as Checkup from '../../../src/lifecycle/explain/checkup.ts';
import { callRoute } from '../../api/support/calls.ts';
import { type RealAgent, startAgent } from '../support/agents.ts';
import { externalPool, waitForNode } from '../support/machines.ts';
import { type ScenarioContext, scenario, whileBroken } from '../support/scenario.ts';

type Parts = Pick<typeof ServerChecks, 'checkServerIdentity'> & Pick<typeof Checkup, 'checkPing'>;
const brokenParts = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/doctor/server-checks.ts'), async (original) => {
  const originalModule = await original();
  return {
    ...originalModule,
    checkServerIdentity: (...args) => (brokenParts.checkServerIdentity ?? originalModule.checkServerIdentity)(...args),
  };
});
vi.mock(import('../../../src/lifecycle/explain/checkup.ts'), async (original) => {
  const originalModule = await original();
  return { ...originalModule, checkPing: (...args) => (brokenParts.checkPing ?? originalModule.checkPing)(...args) };
});

const heartbeat = { interval_seconds: 0.3, stale_after_seconds: 6 };
/** The timeout of the check of each layer, and of a ping. */
const timeout_seconds = 5;

interface Fixture {
  context: ScenarioContext;
  proxy: FaultyProxy;
  agent: RealAgent;
  node_id: string;
}

const authorityFile = ({ dir }: Pick<RealAgent, 'dir'>) => `${dir}/ca.pem`;
const unresolvedName: LayerFailure = { layer: 'dns', code: 'dns_unresolved', owner_layer: 'transport' };
const unresolvableUrl = 'https://nowhere.invalid';

/**
 * An agent that cannot resolve the server's name; returns the directory with its spooled faults.
 */
async function startWithUnresolvableServer(context: ScenarioContext, config: object): Promise<string> {
  const agent = await startAgent(context, { ...config, server_url: unresolvableUrl });
  await waitForSpooledFault({ context, agent }, unresolvedName);
  await agent.stop();
  return agent.dir;
}

/**
 * A server behind a proxy that terminates TLS with its own CA, and a real agent that connects
 * through it. With `isUnresolvedAtFirst` the agent first spools faults of an unresolvable name.
 */
async function setUpFixture(context: ScenarioContext, isUnresolvedAtFirst = false): Promise<Fixture> {
  const proxy = await faultyProxy(context.server.url);
  onTestFinished(() => proxy.stop());
  await externalPool(context, 'yard', { heartbeat });
  const { token: join_token } = await context.client.call('join-token-create', { params: { pool: 'yard' } });
  const config = { ca: proxy.ca, join_token, name: 'crane' };
  const dir = isUnresolvedAtFirst ? { dir: await startWithUnresolvableServer(context, config) } : {};
  const agent = { ...(await startAgent(context, { ...config, server_url: proxy.url, ...dir })), ...dir };
  await writeFile(authorityFile(agent), proxy.ca);
  const [node] = await context.waitFor('the machine to join', async () => {
    const { items } = await context.client.call('node-list', { query: { pool: 'yard' } });
    return items[0]?.status === 'ready' ? items : undefined;
  });
  return { context, proxy, agent, node_id: node?.node_id ?? '' };
}

interface LayerFailure {
  layer: string;
  code: string;
  owner_layer: string;
}

const failureIn = (reports: readonly LayerReport[]): LayerFailure | 'well' => {
  const failure = failureOf(reports);
  return failure ? { layer: failure.layer, code: failure.code ?? '', owner_layer: failure.owner_layer ?? '' } : 'well';
};

/** Runs doctor on the machine, with the agent's files. */
async function diagnoseFromNode(
  { agent, proxy }: Fixture,
  dir = agent.dir,
  server = proxy.url,
): Promise<LayerFailure | 'well'> {
  const lines: string[] = [];
  const args = ['--server', server, '--dir', dir, '--ca', authorityFile(agent), '--json'];
  await agentDoctor(
    [...args, '--patience', String(timeout_seconds)],
    {},
    {
      clock: systemClock,
      out: (line) => lines.push(line),
      err: (line) => lines.push(line),
    },
  );
  return failureIn(JSON.parse(lines.join('\n')).layers);
}

/** Runs doctor for an operator, over the same path. */
async function diagnoseFromOperator(
  { context, proxy, node_id }: Fixture,
  given: { token?: string } = {},
): Promise<LayerFailure | 'well'> {
  const reports: LayerReport[] = [];
  const examination = examine({
    url: new URL(proxy.url),
    ca: proxy.ca,
    known_keys: null,
    caller: { kind: 'person', token: given.token ?? context.server.token, node_id },
    correlation_id: 'which-layer',
    clock: systemClock,
    signal: new AbortController().signal,
    timeout_seconds,
  });
  for await (const report of examination) reports.push(report);
  return failureIn(reports);
}

/** Waits until the agent met the fault and spooled it. The agent reports the fault later. */
const waitForSpooledFault = (
  { context, agent }: Pick<Fixture, 'context' | 'agent'>,
  { layer, code }: LayerFailure,
): Promise<unknown> =>
  context.waitFor(`${layer} to be met by the agent`, async () => {
    const { failed_calls } = JSON.parse(await readFile(join(agent.dir, '.agent/facts.json'), 'utf8').catch(() => '{}'));
    return failed_calls?.find((kept: { layer: string; code: string }) => kept.layer === layer && kept.code === code);
  });

/**
 * Once the path works again, the agent reports the fault. The timeline then has the layer and the
 * owner that doctor named.
 */
const waitForReport = (
  { context, node_id }: Fixture,
  { layer, code, owner_layer }: LayerFailure,
  call?: string,
): Promise<unknown> =>
  context.waitFor(`${layer} on the timeline`, async () => {
    const query = { layer: 'transport', kind: 'agent_call_failed', limit: 100 } as const;
    const { items } = await context.client.call('node-timeline', { params: { id: node_id }, query });
    return items.find(
      ({ data }) =>
        data.detail_layer === layer &&
        data.code === code &&
        data.owner_layer === owner_layer &&
        (call === undefined || data.call === call),
    );
  });

/**
 * The faults on the path, with the layer that doctor must name. Only a fault that has the name of
 * its layer is also checked with the agent.
 */
const pathFaults: [ProxyFault, LayerFailure][] = [
  ['tcp', { layer: 'tcp', code: 'tcp_refused', owner_layer: 'transport' }],
  ['tls', { layer: 'tls', code: 'tls_failed', owner_layer: 'transport' }],
  ['ca', { layer: 'ca', code: 'ca_untrusted', owner_layer: 'transport' }],
  ['expired', { layer: 'ca', code: 'certificate_expired', owner_layer: 'transport' }],
  ['name', { layer: 'ca', code: 'certificate_name_mismatch', owner_layer: 'transport' }],
  ['ingress', { layer: 'ingress', code: 'ingress_stranger', owner_layer: 'transport' }],
  ['bad-gateway', { layer: 'ingress', code: 'ingress_stranger', owner_layer: 'transport' }],
];

/** Checks that doctor names the layer `dns` on the machine and in the CLI. */
async function expectUnresolvedName(fixture: Fixture): Promise<void> {
  expect(await diagnoseFromNode(fixture, fixture.agent.dir, unresolvableUrl)).toEqual(unresolvedName);
  const env = { SLIPWAY_TOKEN: fixture.context.server.token };
  const output = await runCli(['doctor', unresolvableUrl, '--json'], { env });
  expect(JSON.parse(output.stdout).failed).toMatchObject(unresolvedName);
  expect(output.code).toBe(3);
}

scenario({
  name: 'the path to the server',
  async story(context) {
    const fixture = await setUpFixture(context, true);
    await waitForReport(fixture, unresolvedName);
    await expectUnresolvedName(fixture);
    expect([await diagnoseFromNode(fixture), await diagnoseFromOperator(fixture)]).toEqual(['well', 'well']);
    await fixture.proxy.break('other');
    const otherInstallation = { layer: 'ingress', code: 'ingress_other_installation', owner_layer: 'transport' };
    expect(await diagnoseFromNode(fixture), 'another installation').toEqual(otherInstallation);
    await fixture.proxy.break(null);
    for (const [fault, layer] of pathFaults) {
      await fixture.proxy.break(fault);
      expect(await diagnoseFromNode(fixture), `${fault}, from the machine`).toEqual(layer);
      expect(await diagnoseFromOperator(fixture), `${fault}, from an operator`).toEqual(layer);
      const agentToo = fault === layer.layer;
      if (agentToo) await waitForSpooledFault(fixture, layer);
      await fixture.proxy.break(null);
      if (agentToo) await waitForReport(fixture, layer);
    }
    expect(fixture.agent.hasEnded()).toBe(false);
    const env = { SLIPWAY_TOKEN: context.server.token, SLIPWAY_CA: authorityFile(fixture.agent) };
    const output = await runCli(['doctor', fixture.node_id], { server: fixture.proxy.url, env });
    expect(output).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('✔ result') });
  },
  counterTests: [
    {
      broken: 'a doctor that accepts the answer of any server',
      around: whileBroken(brokenParts, {
        checkServerIdentity: async () => ({ state: 'ok', says: 'somebody answers' }),
      }),
      fails: /^another installation/,
    },
  ],
});

/** The agent's files with another credential. */
async function withWrongCredential({ agent }: Fixture): Promise<string> {
  const dir = `${agent.dir}-other`;
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  await cp(agent.dir, dir, { recursive: true });
  const state = join(dir, '.agent/state.json');
  const savedState = JSON.parse(await readFile(state, 'utf8'));
  await writeFile(
    state,
    JSON.stringify({ ...savedState, identity: { ...savedState.identity, credential: 'swc_none' } }),
  );
  return dir;
}

scenario({
  name: 'the layers on the machine',
  async story(context) {
    const fixture = await setUpFixture(context);
    const { proxy, agent, node_id } = fixture;
    // Concurrently: an open ping is shared by all callers.
    const diagnoseFromBothEnds = () => Promise.all([diagnoseFromNode(fixture), diagnoseFromOperator(fixture)]);
    const twice = (layer: LayerFailure) => [layer, layer];

    const unknownCredential = { layer: 'credential', code: 'credential_unknown', owner_layer: 'auth' };
    expect(await diagnoseFromNode(fixture, await withWrongCredential(fixture)), 'credential').toEqual(
      unknownCredential,
    );
    const refusal = await callRoute(context.server.url, 'agent-checkup', {}, { bearer: 'swc_none' });
    expect(refusal.body).toMatchObject({
      code: unknownCredential.code,
      owner_layer: 'auth',
      detail_layer: 'credential',
    });
    expect(await diagnoseFromOperator(fixture, { token: 'swt_none' })).toEqual({
      ...unknownCredential,
      code: 'token_unknown',
    });

    for (const [layer, code, call] of [
      ['result', 'result_missing', 'agent-task-result'],
      ['claim', 'task_unclaimed', 'agent-task-next'],
    ] as const) {
      await proxy.break(layer);
      const waitForReportedFault = () =>
        waitForReport(fixture, { layer: 'ingress', code: 'ingress_stranger', owner_layer: 'transport' }, call);
      // Until the agent reports the fault, the server may still answer its earlier poll.
      if (layer === 'claim') await waitForReportedFault();
      const lostTask = { layer, code, owner_layer: 'node' };
      const body = { within_seconds: timeout_seconds };
      const { task_id } = await context.client.call('node-ping', { params: { id: node_id }, body });
      expect(await diagnoseFromBothEnds(), layer).toEqual(twice(lostTask));
      const query = { wait: 2 * timeout_seconds };
      const { over, checks } = await context.client.call('node-ping-get', { params: { id: node_id, task_id }, query });
      expect({ over, checks }).toMatchObject({
        over: true,
        checks: expect.arrayContaining([
          expect.objectContaining({ layer, ok: false, code, owner_layer: 'node', detail_layer: layer }),
        ]),
      });
      await proxy.break(null);
      await waitForReportedFault();
    }

    const fencedNode = { layer: 'fence', code: 'node_fenced', owner_layer: 'node' };
    const act = (action: 'quarantine' | 'reactivate') =>
      context.client.call('node-act', { params: { id: node_id, action }, body: { reason: 'to see' } });
    await act('quarantine');
    await waitForNode(context, node_id, 'quarantined');
    expect(await diagnoseFromBothEnds(), 'fence').toEqual(twice(fencedNode));
    const { credential } = JSON.parse(await readFile(join(agent.dir, '.agent/state.json'), 'utf8')).identity;
    const fencedPoll = await callRoute(context.server.url, 'agent-task-next', {}, { bearer: credential });
    expect(fencedPoll.body).toMatchObject({ code: fencedNode.code, owner_layer: 'node', detail_layer: 'fence' });
    await act('reactivate');
    await waitForNode(context, node_id, 'ready');

    const silentMachine = { layer: 'heartbeat', code: 'heartbeat_stale', owner_layer: 'node' };
    await agent.stop();
    await context.waitFor('the machine to count as silent', async () => {
      const { checks } = await context.client.call('node-checkup', { params: { id: node_id } });
      return checks.some(({ code }) => code === silentMachine.code);
    });
    expect(await diagnoseFromBothEnds(), 'heartbeat').toEqual(twice(silentMachine));
  },
  counterTests: [
    {
      broken: 'a server that counts a leased ping as answered',
      around: whileBroken(brokenParts, {
        checkPing: ({ leases }) => {
          const ok = leases > 0;
          const code = ok ? null : 'task_unclaimed';
          return (['claim', 'result'] as const).map((layer) => ({ layer, ok, code, detail: '' }));
        },
      }),
      fails: /^result/,
    },
  ],
});
