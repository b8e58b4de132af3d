/**
 * Each layer between a machine and the server is broken in turn: doctor names it from both ends,
 * and so does the API.
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

type Parts = Pick<typeof ServerChecks, 'recognise'> & Pick<typeof Checkup, 'checkPing'>;
const wrong = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/doctor/server-checks.ts'), async (original) => {
  const whole = await original();
  return { ...whole, recognise: (...given) => (wrong.recognise ?? whole.recognise)(...given) };
});
vi.mock(import('../../../src/lifecycle/explain/checkup.ts'), async (original) => {
  const whole = await original();
  return { ...whole, checkPing: (...given) => (wrong.checkPing ?? whole.checkPing)(...given) };
});

const heartbeat = { interval_seconds: 0.3, stale_after_seconds: 6 };
/** For each layer, and for a ping. */
const timeout_seconds = 5;

interface Stage {
  context: ScenarioContext;
  proxy: FaultyProxy;
  agent: RealAgent;
  node_id: string;
}

const authorityFile = ({ dir }: Pick<RealAgent, 'dir'>) => `${dir}/ca.pem`;
const unnamed: Named = { layer: 'dns', code: 'dns_unresolved', owner_layer: 'transport' };
const nowhere = 'https://nowhere.invalid';

/**
 * An agent that cannot resolve the server's name; returns the directory with its spooled faults.
 */
async function withoutName(context: ScenarioContext, config: object): Promise<string> {
  const agent = await startAgent(context, { ...config, server_url: nowhere });
  await waitForSpooledFault({ context, agent }, unnamed);
  await agent.stop();
  return agent.dir;
}

/**
 * A server behind a proxy that terminates TLS with its own CA, and a real agent that connects
 * through it.
 */
async function staged(context: ScenarioContext, lost = false): Promise<Stage> {
  const proxy = await faultyProxy(context.server.url);
  onTestFinished(() => proxy.stop());
  await externalPool(context, 'yard', { heartbeat });
  const { token: join_token } = await context.client.call('join-token-create', { params: { pool: 'yard' } });
  const config = { ca: proxy.ca, join_token, name: 'crane' };
  const dir = lost ? { dir: await withoutName(context, config) } : {};
  const agent = { ...(await startAgent(context, { ...config, server_url: proxy.url, ...dir })), ...dir };
  await writeFile(authorityFile(agent), proxy.ca);
  const [node] = await context.waitFor('machine to join', async () => {
    const { items } = await context.client.call('node-list', { query: { pool: 'yard' } });
    return items[0]?.status === 'ready' ? items : undefined;
  });
  return { context, proxy, agent, node_id: node?.node_id ?? '' };
}

interface Named {
  layer: string;
  code: string;
  owner_layer: string;
}

const named = (reports: readonly LayerReport[]): Named | 'well' => {
  const failure = failureOf(reports);
  return failure ? { layer: failure.layer, code: failure.code ?? '', owner_layer: failure.owner_layer ?? '' } : 'well';
};

/** The finding of doctor on the machine, run with the agent's files. */
async function fromNode({ agent, proxy }: Stage, dir = agent.dir, server = proxy.url): Promise<Named | 'well'> {
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
  return named(JSON.parse(lines.join('\n')).layers);
}

/** The finding of doctor for an operator, over the same path. */
async function fromOperator(
  { context, proxy, node_id }: Stage,
  given: { token?: string } = {},
): Promise<Named | 'well'> {
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
  return named(reports);
}

/** The agent meets the fault too and spools it until it can report it. */
const waitForSpooledFault = (
  { context, agent }: Pick<Stage, 'context' | 'agent'>,
  { layer, code }: Named,
): Promise<unknown> =>
  context.waitFor(`${layer} to be met by the agent`, async () => {
    const { failed_calls } = JSON.parse(await readFile(join(agent.dir, '.agent/facts.json'), 'utf8').catch(() => '{}'));
    return failed_calls?.find((kept: { layer: string; code: string }) => kept.layer === layer && kept.code === code);
  });

/**
 * Once the path works again, the fault is on the timeline with the layer and the owner that doctor
 * named.
 */
const waitForReport = (
  { context, node_id }: Stage,
  { layer, code, owner_layer }: Named,
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
 * The agent meets the fault that is named after its layer; the others are checked with doctor only.
 */
const onTheWay: [ProxyFault, Named][] = [
  ['tcp', { layer: 'tcp', code: 'tcp_refused', owner_layer: 'transport' }],
  ['tls', { layer: 'tls', code: 'tls_failed', owner_layer: 'transport' }],
  ['ca', { layer: 'ca', code: 'ca_untrusted', owner_layer: 'transport' }],
  ['expired', { layer: 'ca', code: 'certificate_expired', owner_layer: 'transport' }],
  ['name', { layer: 'ca', code: 'certificate_name_mismatch', owner_layer: 'transport' }],
  ['ingress', { layer: 'ingress', code: 'ingress_stranger', owner_layer: 'transport' }],
  ['bad-gateway', { layer: 'ingress', code: 'ingress_stranger', owner_layer: 'transport' }],
];

/** Doctor finds nothing, neither on the machine nor for an operator. */
async function expectNoFault(stage: Stage): Promise<void> {
  expect(await fromNode(stage, stage.agent.dir, nowhere)).toEqual(unnamed);
  const env = { SLIPWAY_TOKEN: stage.context.server.token };
  const output = await runCli(['doctor', nowhere, '--json'], { env });
  expect(JSON.parse(output.stdout).failed).toMatchObject(unnamed);
  expect(output.code).toBe(3);
}

scenario({
  name: 'the path to the server',
  async story(context) {
    const stage = await staged(context, true);
    await waitForReport(stage, unnamed);
    await expectNoFault(stage);
    expect([await fromNode(stage), await fromOperator(stage)]).toEqual(['well', 'well']);
    await stage.proxy.break('other');
    const other = { layer: 'ingress', code: 'ingress_other_installation', owner_layer: 'transport' };
    expect(await fromNode(stage), 'another installation').toEqual(other);
    await stage.proxy.break(null);
    for (const [fault, layer] of onTheWay) {
      await stage.proxy.break(fault);
      expect(await fromNode(stage), `${fault}, from the machine`).toEqual(layer);
      expect(await fromOperator(stage), `${fault}, from an operator`).toEqual(layer);
      const agentToo = fault === layer.layer;
      if (agentToo) await waitForSpooledFault(stage, layer);
      await stage.proxy.break(null);
      if (agentToo) await waitForReport(stage, layer);
    }
    expect(stage.agent.hasEnded()).toBe(false);
    const env = { SLIPWAY_TOKEN: context.server.token, SLIPWAY_CA: authorityFile(stage.agent) };
    const output = await runCli(['doctor', stage.node_id], { server: stage.proxy.url, env });
    expect(output).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('✔ result') });
  },
  counters: [
    {
      broken: 'a doctor that accepts any answer as ours',
      around: whileBroken(wrong, { recognise: async () => ({ state: 'ok', says: 'somebody answers' }) }),
      fails: /^another installation/,
    },
  ],
});

/** The agent's files with another credential. */
async function withWrongCredential({ agent }: Stage): Promise<string> {
  const dir = `${agent.dir}-other`;
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  await cp(agent.dir, dir, { recursive: true });
  const state = join(dir, '.agent/state.json');
  const kept = JSON.parse(await readFile(state, 'utf8'));
  await writeFile(state, JSON.stringify({ ...kept, identity: { ...kept.identity, credential: 'swc_none' } }));
  return dir;
}

scenario({
  name: 'the machine behind it',
  async story(context) {
    const stage = await staged(context);
    const { proxy, agent, node_id } = stage;
    // Concurrently: an open ping is shared by all callers.
    const both = () => Promise.all([fromNode(stage), fromOperator(stage)]);
    const twice = (layer: Named) => [layer, layer];

    const nobody = { layer: 'credential', code: 'credential_unknown', owner_layer: 'auth' };
    expect(await fromNode(stage, await withWrongCredential(stage)), 'credential').toEqual(nobody);
    const refused = await callRoute(context.server.url, 'agent-checkup', {}, { bearer: 'swc_none' });
    expect(refused.body).toMatchObject({ code: nobody.code, owner_layer: 'auth', detail_layer: 'credential' });
    expect(await fromOperator(stage, { token: 'swt_none' })).toEqual({ ...nobody, code: 'token_unknown' });

    for (const [layer, code, call] of [
      ['result', 'result_missing', 'agent-task-result'],
      ['claim', 'task_unclaimed', 'agent-task-next'],
    ] as const) {
      await proxy.break(layer);
      const reported = () =>
        waitForReport(stage, { layer: 'ingress', code: 'ingress_stranger', owner_layer: 'transport' }, call);
      // Until then the server may hold an abandoned poll of the agent and answer that one.
      if (layer === 'claim') await reported();
      const lost = { layer, code, owner_layer: 'node' };
      const body = { within_seconds: timeout_seconds };
      const { task_id } = await context.client.call('node-ping', { params: { id: node_id }, body });
      expect(await both(), layer).toEqual(twice(lost));
      const query = { wait: 2 * timeout_seconds };
      const { over, checks } = await context.client.call('node-ping-get', { params: { id: node_id, task_id }, query });
      expect({ over, checks }).toMatchObject({
        over: true,
        checks: expect.arrayContaining([
          expect.objectContaining({ layer, ok: false, code, owner_layer: 'node', detail_layer: layer }),
        ]),
      });
      await proxy.break(null);
      await reported();
    }

    const aside = { layer: 'fence', code: 'node_fenced', owner_layer: 'node' };
    const act = (action: 'quarantine' | 'reactivate') =>
      context.client.call('node-act', { params: { id: node_id, action }, body: { reason: 'to see' } });
    await act('quarantine');
    await waitForNode(context, node_id, 'quarantined');
    expect(await both(), 'fence').toEqual(twice(aside));
    const { credential } = JSON.parse(await readFile(join(agent.dir, '.agent/state.json'), 'utf8')).identity;
    const barred = await callRoute(context.server.url, 'agent-task-next', {}, { bearer: credential });
    expect(barred.body).toMatchObject({ code: aside.code, owner_layer: 'node', detail_layer: 'fence' });
    await act('reactivate');
    await waitForNode(context, node_id, 'ready');

    const silent = { layer: 'heartbeat', code: 'heartbeat_stale', owner_layer: 'node' };
    await agent.stop();
    await context.waitFor('machine to count as silent', async () => {
      const { checks } = await context.client.call('node-checkup', { params: { id: node_id } });
      return checks.some(({ code }) => code === silent.code);
    });
    expect(await both(), 'heartbeat').toEqual(twice(silent));
  },
  counters: [
    {
      broken: 'a server that takes a lease for an answer',
      around: whileBroken(wrong, {
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
