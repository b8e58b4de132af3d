/**
 * Runs the unmodified AgentField SDK for Python, in its oldest and newest release. The tests cover
 * shutdowns, restarts, ids with a space, and two processes with the same id.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { sdkPython, sdkVersions } from '../../scripts/setup/agentfield-sdk.mjs';
import type { Node } from '../../src/contract/node.ts';
import type { Finding } from '../../src/contract/supervision/finding.ts';
import { type Sdk, type SdkNode, startSdkNode } from '../scenarios/support/agentfield-node.ts';
import { freePort } from '../support/free-port.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { isWhole, withOutsider } from './support/outsider.ts';

/** Python starts slowly on a busy machine, and the SDK checks its connection every 30 s. */
const patience = { seconds: 180, every_ms: 250 };
const timeout = 600_000;
/**
 * A heartbeat in flight during a shutdown can bring the node back. Then the node goes offline only
 * after its stale time, so the stale time is short.
 */
const shortStaleSeconds = 8;
/** Longer than the pauses of a live process on a busy machine. */
const longStaleSeconds = 120;

withOutsider('agentfield-oldest', ({ place }) => {
  const newest = sdkPython(sdkVersions.says_ready);
  const oldest: Sdk = { ...newest, env: { PYTHONPATH: `${place}:${newest.env.PYTHONPATH}` } };

  let server: SpawnedServer;
  /** The URL for the SDK of each pool, by stale time. */
  const baseUrls = new Map<number, string>();
  const startedNodes: SdkNode[] = [];
  beforeAll(async () => {
    server = await spawnServer();
    for (const stale_after_seconds of [shortStaleSeconds, longStaleSeconds]) {
      const pool = `agentfield-${stale_after_seconds}`;
      const common = { driver: 'external', budgets: { start_seconds: 2 }, probe: { allow_private: true } };
      const body = { ...common, heartbeat: { stale_after_seconds } };
      await server.client.call('pool-put', { params: { pool }, body });
      const { token } = await server.client.call('join-token-create', { params: { pool }, body: {} });
      baseUrls.set(stale_after_seconds, `${server.url}/compat/agentfield/${token}`);
    }
  }, timeout);
  afterAll(async () => {
    await Promise.all(startedNodes.map((node) => node.end('SIGKILL')));
    await server?.stop();
  }, timeout);

  const start = async (sdk: Sdk, id: string, port: number, stale_seconds: number, callback_url?: string) => {
    const node = await startSdkNode(sdk, id, baseUrls.get(stale_seconds) ?? '', port, callback_url);
    startedNodes.push(node);
    return node;
  };

  const findNode = async (id: string): Promise<Node | undefined> => {
    const { items } = await server.client.call('node-list', { query: { limit: 100 } });
    return items.find(({ name, labels }) => name === id || labels.client_id === id);
  };
  const waitForStatus = (id: string, status: Node['status'], process: SdkNode): Promise<Node> =>
    until(
      `${id} to be ${status}`,
      async () => {
        const node = await findNode(id);
        return node?.status === status ? node : undefined;
      },
      patience,
    ).catch((error) => {
      throw new Error(`${error.message}\n${process.output().slice(-4000)}`);
    });
  const waitForFinding = (node_id: string, because: string): Promise<Finding> =>
    until(
      `the finding ${because}`,
      async () => {
        const { items } = await server.client.call('drift-list', { query: { kind: 'identity', node_id } });
        return items.find(({ theirs }) => theirs.because === because);
      },
      patience,
    );

  it.each([
    ['0.1.0', oldest],
    [sdkVersions.says_ready, newest],
  ])(
    'SDK %s registers under an id with a space, goes offline on shutdown, and returns as the same node',
    async (version, sdk) => {
      const id = `my node ${version}`;
      const port = await freePort();
      const first = await start(sdk, id, port, shortStaleSeconds);
      const { node_id, registered_at } = await waitForStatus(id, 'ready', first);
      // The oldest release takes half a minute to start and ignores signals until then.
      if (sdk === oldest && !isWhole) return;
      await first.end('SIGTERM');
      await waitForStatus(id, 'offline', first);
      const second = await start(sdk, id, port, shortStaleSeconds);
      const returnedNode = await waitForStatus(id, 'ready', second);
      expect(returnedNode.node_id).toBe(node_id);
      // The second process registered itself and did not inherit the first one's ready report.
      expect(returnedNode.registered_at).not.toBe(registered_at);
      await second.end('SIGTERM');
      await waitForStatus(id, 'offline', second);
    },
    timeout,
  );

  it(
    'refuses a second process while the first one answers, and names both in a finding',
    async () => {
      const [firstPort, secondPort] = [await freePort(), await freePort()];
      const first = await start(newest, 'duplicate', firstPort, longStaleSeconds);
      const { node_id } = await waitForStatus('duplicate', 'ready', first);
      await start(newest, 'duplicate', secondPort, longStaleSeconds);
      expect(await waitForFinding(node_id, 'second_process')).toMatchObject({
        ours: { endpoint: `http://127.0.0.1:${firstPort}` },
        theirs: { endpoint: `http://127.0.0.1:${secondPort}`, source: '127.0.0.1' },
      });
      expect(await findNode('duplicate')).toMatchObject({ endpoint: `http://127.0.0.1:${firstPort}` });
    },
    timeout,
  );

  // This test is slow: the SDK takes up to 40 s to notice that it was replaced.
  if (isWhole)
    it(
      'settles the name on one of two processes if the server can reach neither',
      async () => {
        const [firstPort, secondPort] = [await freePort(), await freePort()];
        const unreachable = (port: number) => `http://127.0.0.2:${port}`;
        const first = await start(newest, 'unreachable', firstPort, longStaleSeconds, unreachable(firstPort));
        const { node_id } = await waitForStatus('unreachable', 'ready', first);
        await start(newest, 'unreachable', secondPort, longStaleSeconds, unreachable(secondPort));
        await until(
          'the second process to take the name',
          async () => {
            const node = await findNode('unreachable');
            return node?.endpoint === unreachable(secondPort);
          },
          patience,
        );
        const finding = await waitForFinding(node_id, 'two_processes');
        expect(finding).toMatchObject({
          ours: { endpoint: unreachable(firstPort) },
          theirs: { endpoint: unreachable(secondPort) },
        });
        // From now on the server refuses the second process. Each refusal updates `seen_at` of the
        // finding, and the name does not move.
        await until(
          'the second process to be refused',
          async () => {
            const { items } = await server.client.call('drift-list', { query: { kind: 'identity', node_id } });
            return items.some(({ seen_at }) => seen_at > finding.seen_at);
          },
          patience,
        );
        await waitForStatus('unreachable', 'ready', first);
        const node = await findNode('unreachable');
        expect(node).toMatchObject({ endpoint: unreachable(firstPort) });
        // Each move of the name counts as a restart. A few more happen if a busy server answers too
        // slowly for the SDK.
        expect(node?.restarts).toBeLessThan(8);
      },
      timeout,
    );
});
