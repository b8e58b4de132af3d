/**
 * The unmodified AgentField SDK for Python, its oldest and newest release: restarts, goodbyes, odd
 * ids, and two processes at once.
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
 * A heartbeat in flight during a goodbye brings the machine back; then only its silence ends it.
 */
const brief = 8;
/** Longer than a process is silent on a busy machine. */
const long = 120;

withOutsider('agentfield-oldest', ({ place }) => {
  const newest = sdkPython(sdkVersions.says_ready);
  const oldest: Sdk = { ...newest, env: { PYTHONPATH: `${place}:${newest.env.PYTHONPATH}` } };

  let server: SpawnedServer;
  /** The base URL of each pool, by its stale time. */
  const addresses = new Map<number, string>();
  const running: SdkNode[] = [];
  beforeAll(async () => {
    server = await spawnServer();
    for (const stale_after_seconds of [brief, long]) {
      const pool = `agentfield-${stale_after_seconds}`;
      const common = { driver: 'external', budgets: { start_seconds: 2 }, probe: { allow_private: true } };
      const body = { ...common, heartbeat: { stale_after_seconds } };
      await server.client.call('pool-put', { params: { pool }, body });
      const { token } = await server.client.call('join-token-create', { params: { pool }, body: {} });
      addresses.set(stale_after_seconds, `${server.url}/compat/agentfield/${token}`);
    }
  }, timeout);
  afterAll(async () => {
    await Promise.all(running.map((node) => node.end('SIGKILL')));
    await server?.stop();
  }, timeout);

  const start = async (sdk: Sdk, id: string, port: number, stale_seconds: number, callback_url?: string) => {
    const node = await startSdkNode(sdk, id, addresses.get(stale_seconds) ?? '', port, callback_url);
    running.push(node);
    return node;
  };

  const nodeNamed = async (id: string): Promise<Node | undefined> => {
    const { items } = await server.client.call('node-list', { query: { limit: 100 } });
    return items.find(({ name, labels }) => name === id || labels.client_id === id);
  };
  const waitForStatus = (id: string, status: Node['status'], process: SdkNode): Promise<Node> =>
    until(
      `${id} to be ${status}`,
      async () => {
        const node = await nodeNamed(id);
        return node?.status === status ? node : undefined;
      },
      patience,
    ).catch((error) => {
      throw new Error(`${error.message}\n${process.output().slice(-4000)}`);
    });
  const findingOn = (node_id: string, because: string): Promise<Finding> =>
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
    'SDK %s registers under an id with a space, says goodbye, and returns',
    async (version, sdk) => {
      const id = `my node ${version}`;
      const port = await freePort();
      const first = await start(sdk, id, port, brief);
      const { node_id, registered_at } = await waitForStatus(id, 'ready', first);
      // The oldest release takes half a minute to start and ignores signals until then.
      if (sdk === oldest && !isWhole) return;
      await first.end('SIGTERM');
      await waitForStatus(id, 'offline', first);
      const again = await start(sdk, id, port, brief);
      const back = await waitForStatus(id, 'ready', again);
      expect(back.node_id).toBe(node_id);
      // It started over: it does not inherit the ready report of the process before it.
      expect(back.registered_at).not.toBe(registered_at);
      await again.end('SIGTERM');
      await waitForStatus(id, 'offline', again);
    },
    timeout,
  );

  it(
    'refuses a second process beside one that answers, and names both in the finding',
    async () => {
      const [one, two] = [await freePort(), await freePort()];
      const first = await start(newest, 'beside', one, long);
      const { node_id } = await waitForStatus('beside', 'ready', first);
      await start(newest, 'beside', two, long);
      expect(await findingOn(node_id, 'second_process')).toMatchObject({
        ours: { endpoint: `http://127.0.0.1:${one}` },
        theirs: { endpoint: `http://127.0.0.1:${two}`, source: '127.0.0.1' },
      });
      expect(await nodeNamed('beside')).toMatchObject({ endpoint: `http://127.0.0.1:${one}` });
    },
    timeout,
  );

  // The SDK notices within 40 s that it was replaced, and registers again.
  if (isWhole)
    it(
      'keeps the name with one of two processes whose addresses the server cannot reach',
      async () => {
        const [one, two] = [await freePort(), await freePort()];
        const unreachable = (port: number) => `http://127.0.0.2:${port}`;
        const first = await start(newest, 'in-turns', one, long, unreachable(one));
        const { node_id } = await waitForStatus('in-turns', 'ready', first);
        await start(newest, 'in-turns', two, long, unreachable(two));
        await until(
          'the second to take the name',
          async () => {
            const node = await nodeNamed('in-turns');
            return node?.endpoint === unreachable(two);
          },
          patience,
        );
        const found = await findingOn(node_id, 'two_processes');
        expect(found).toMatchObject({ ours: { endpoint: unreachable(one) }, theirs: { endpoint: unreachable(two) } });
        // The second process is refused now, so the finding is seen again and the name does not
        // move.
        await until(
          'the second to be refused',
          async () => {
            const { items } = await server.client.call('drift-list', { query: { kind: 'identity', node_id } });
            return items.some(({ seen_at }) => seen_at > found.seen_at);
          },
          patience,
        );
        await waitForStatus('in-turns', 'ready', first);
        const settled = await nodeNamed('in-turns');
        expect(settled).toMatchObject({ endpoint: unreachable(one) });
        // One restart for each move of the name, and a few more where a busy server was too slow
        // for the SDK.
        expect(settled?.restarts).toBeLessThan(8);
      },
      timeout,
    );
});
