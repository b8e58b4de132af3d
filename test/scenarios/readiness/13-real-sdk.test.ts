/**
 * A node with the unmodified AgentField SDK for Python registers, reports and becomes ready. It
 * goes offline when stopped, and is the same node when restarted. A molecule runtime, which
 * registers once and then only sends heartbeats, becomes ready too.
 */
import { expect } from 'vitest';
import { sdkVersions } from '../../../scripts/setup/agentfield-sdk.mjs';
import { startWorkspace } from '../../api/support/compat-clients.ts';
import { freePort } from '../../support/free-port.ts';
import { startSdkNode } from '../support/agentfield-node.ts';
import { causesOf, externalPool, nodeOf, waitForNode } from '../support/machines.ts';
import { type ScenarioContext, scenario, withoutSweep } from '../support/scenario.ts';

const start_seconds = 2;
/** More than three of the SDK's intervals (2 s), and less than three of the pool's. */
const stale_after_seconds = 8;

const workspace_id = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c01';

const waitForRegistration = (context: ScenarioContext, name: string) =>
  context.waitFor(`${name} to register`, async () => {
    const { items } = await context.client.call('node-list', { query: { pool: 'agentfield', q: name } });
    return items[0]?.registered_at ? items[0] : undefined;
  });

scenario({
  name: 'unmodified AgentField and molecule clients',
  async story(context) {
    const budgets = { start_seconds };
    await externalPool(context, 'agentfield', { reuse: false, budgets, heartbeat: { stale_after_seconds } });
    const { token = '' } = await context.client.call('join-token-create', { params: { pool: 'agentfield' }, body: {} });

    const workspace = await startWorkspace(context.server.url, token, workspace_id);
    const { node_id: workspace_node } = await waitForRegistration(context, workspace_id);
    await context.waitFor('the workspace to be ready by its heartbeats', async () => {
      expect((await workspace.beat()).body).toEqual({ status: 'ok' });
      return (await nodeOf(context, workspace_node)).status === 'ready';
    });

    const protocolUrl = `${context.server.url}/compat/agentfield/${token}`;

    // The older SDK reports "starting" for ever and sends a goodbye when stopped.
    const olderNode = await startSdkNode(sdkVersions.says_starting, 'older', protocolUrl);
    try {
      const { node_id } = await waitForRegistration(context, 'older');
      const ready = await waitForNode(context, node_id, 'ready');
      expect(ready).toMatchObject({ verdict: { rule: 'stuck-starting' }, reported: { status: 'starting' } });
      const { never_ready } = await context.client.call('overview-get', {});
      const agent_version = `agentfield python ${sdkVersions.says_starting}`;
      expect(never_ready).toEqual([{ pool: 'agentfield', agent_version, nodes: 1 }]);
      await olderNode.end('SIGTERM');
      await waitForNode(context, node_id, 'offline');
      expect(await causesOf(context, node_id)).toEqual(['join', 'registration', 'stuck-starting', 'goodbye']);
    } catch (error) {
      throw new Error(`${error instanceof Error ? error.message : error}\n${olderNode.output()}`);
    } finally {
      await olderNode.end('SIGKILL');
    }

    // Restarted under its id it is the same node, even at another address, because the former
    // process sent a goodbye.
    const restartedNode = await startSdkNode(sdkVersions.says_starting, 'older', protocolUrl);
    try {
      const { node_id } = await waitForRegistration(context, 'older');
      await waitForNode(context, node_id, 'ready');
      const causes = await causesOf(context, node_id);
      expect(causes.slice(0, 4)).toEqual(['join', 'registration', 'stuck-starting', 'goodbye']);
    } catch (error) {
      throw new Error(`${error instanceof Error ? error.message : error}\n${restartedNode.output()}`);
    } finally {
      await restartedNode.end('SIGKILL');
    }

    // The newer SDK reports ready and sends nothing when killed. The liveness rule uses the SDK's
    // interval, which is shorter than the pool's.
    const port = await freePort();
    const killedNode = await startSdkNode(sdkVersions.says_ready, 'newer', protocolUrl, port);
    const first = await waitForRegistration(context, 'newer').finally(() => killedNode.end('SIGKILL'));
    const newerNode = await startSdkNode(sdkVersions.says_ready, 'newer', protocolUrl, port);
    try {
      const { node_id } = first;
      // A process that starts at the same address counts as a restart of the node, or as a new
      // instance if the killed process already counted as silent.
      await context.waitFor('the restart to be recorded', async () => {
        const { restarts, node_instance_id } = await nodeOf(context, node_id);
        return restarts > 0 || node_instance_id !== first.node_instance_id;
      });
      await context.waitFor('the node to report ready', async () => {
        const { status, reported } = await nodeOf(context, node_id);
        return status === 'ready' && reported?.status === 'ready';
      });
      await newerNode.end('SIGKILL');
      const { verdict } = await waitForNode(context, node_id, 'offline');
      expect(verdict).toMatchObject({
        rule: 'liveness',
        reason: expect.stringContaining(`allowed: ${stale_after_seconds} s`),
      });
    } catch (error) {
      throw new Error(`${error instanceof Error ? error.message : error}\n${newerNode.output()}`);
    } finally {
      await newerNode.end('SIGKILL');
    }
  },
  counterTests: [
    {
      broken: 'no stuck-starting rule',
      composition: withoutSweep('stuck-starting'),
      fails: /waited .* for node to be ready/,
    },
  ],
});
