/** Clients of the foreign protocols, AgentField and molecule, and a server to test them against. */
import { expect } from 'vitest';
import type { Log } from '../../../src/base/telemetry/log.ts';
import type { Evidence } from '../../../src/contract/evidence/evidence.ts';
import type { Node } from '../../../src/contract/node.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { type Answer, type SendOptions, send } from './calls.ts';
import { openTables, type Tables } from './tables.ts';

/**
 * Creates a pool with a join token. By default its machines may be silent for a day, so that only
 * the test changes their status.
 */
export async function createProtocolPool(
  { client }: Pick<TestServer, 'client'>,
  pool: string,
  document: object = { heartbeat: { stale_after_seconds: 24 * 3600 } },
): Promise<{ token: string; token_id: string }> {
  await client.call('pool-put', { params: { pool }, body: { driver: 'external', ...document } });
  const { token = '', token_id } = await client.call('join-token-create', { params: { pool }, body: {} });
  return { token, token_id };
}

/** A registration as the AgentField SDKs send it. `fields` adds or replaces fields. */
export const nodeRegistration = (id: string, fields: object = {}) => ({
  id,
  team_id: 'default',
  // Without an address the server has nothing to probe.
  base_url: '',
  version: '1.0.0',
  reasoners: [{ id: 'answer', input_schema: {}, output_schema: {} }],
  skills: [],
  communication_config: { protocols: ['http'], websocket_endpoint: '', heartbeat_interval: '2s' },
  health_status: 'healthy',
  last_heartbeat: '2030-01-01T00:00:00Z',
  registered_at: '2030-01-01T00:00:00Z',
  features: { ab_testing: false, experimental: {} },
  metadata: { deployment: { tags: { sdk_version: '0.1.80', language: 'python' } }, custom: {} },
  ...fields,
});

export interface AgentFieldClient {
  call(method: string, path: string, body?: unknown, options?: SendOptions): Promise<Answer>;
  register(id: string, fields?: object): Promise<Answer>;
  beat(id: string, body?: object): Promise<Answer>;
}

/** Sends the join token in the base URL, because some SDKs let users configure nothing else. */
export function agentFieldClient(url: string, token: string): AgentFieldClient {
  const call: AgentFieldClient['call'] = (method, path, body, options = {}) =>
    send(url, method, `/compat/agentfield/${token}/api/v1${path}`, { ...(body !== undefined && { body }), ...options });
  return {
    call,
    register: (id, fields) => call('POST', '/nodes/register', nodeRegistration(id, fields)),
    // The SDK sends the JSON content type even without a body.
    beat: (id, body) =>
      call('POST', `/nodes/${encodeURIComponent(id)}/heartbeat`, body, {
        headers: { 'content-type': 'application/json' },
      }),
  };
}

export interface Workspace {
  auth_token: string;
  beat(body?: object, options?: SendOptions): Promise<Answer>;
}

export const postToMolecule = (url: string, token: string, path: string, options: SendOptions): Promise<Answer> =>
  send(url, 'POST', `/compat/molecule/${token}${path}`, options);

export async function startWorkspace(
  url: string,
  token: string,
  id: string,
  fields: object = {},
  options: SendOptions = {},
): Promise<Workspace> {
  const { status, body } = await postToMolecule(url, token, '/registry/register', {
    body: { id, agent_card: { name: 'a workspace' }, ...fields },
    ...options,
  });
  if (status !== 200 || typeof body.auth_token !== 'string')
    throw new Error(`the workspace was not registered: ${JSON.stringify(body)}`);
  const bearer = body.auth_token;
  return {
    auth_token: bearer,
    beat: (fields = {}, options = { bearer }) =>
      postToMolecule(url, token, '/registry/heartbeat', {
        ...options,
        body: { workspace_id: id, error_rate: 0, sample_error: '', active_tasks: 0, uptime_seconds: 1, ...fields },
      }),
  };
}

/** Checks that an answer is an error in the format of the foreign protocols. */
export function expectProtocolError(answer: Answer, status: number, what = ''): void {
  expect(answer.status, `${what} ${answer.text}`).toBe(status);
  expect(answer.headers.get('content-type')).toContain('application/json');
  expect(answer.body, what).toEqual({ error: expect.any(String), code: expect.any(String) });
}

export interface ProtocolFixture extends TestServer {
  tables: Tables;
  join_token: string;
  /** A join token of another pool. */
  other_join_token: string;
  readNode(name: string): Promise<Node>;
  readStatus(name: string): Promise<string>;
  waitForFact(node_id: string, kind: string): Promise<Evidence>;
  /**
   * Waits until the stored heartbeat of the node has this interval and this stale time. Omit
   * `interval_seconds` to accept any interval: a server that sheds heartbeats lengthens it.
   */
  waitForPace(name: string, pace: { interval_seconds?: number; stale_seconds: number }): Promise<boolean>;
}

export async function protocolFixture(options: { args?: string[]; log?: Log } = {}): Promise<ProtocolFixture> {
  const server = await inProcessServer(options);
  const tables = await openTables(server.database_url);
  const { client } = server;
  const readNode = async (name: string) => {
    const { items } = await client.call('node-list', { query: { q: name } });
    const match = items.find((each) => each.name === name);
    if (!match) throw new Error(`there is no node ${name}`);
    return match;
  };
  return {
    ...server,
    tables,
    join_token: (await createProtocolPool(server, 'fleet')).token,
    other_join_token: (await createProtocolPool(server, 'others')).token,
    readNode,
    readStatus: async (name) => (await readNode(name)).status,
    waitForFact: (id, kind) =>
      until(`${kind} on the timeline`, async () => {
        const { items } = await client.call('node-timeline', { params: { id }, query: { kind } });
        return items[0];
      }),
    waitForPace: (name, { interval_seconds = null, stale_seconds }) =>
      until(
        `${name} to have an interval of ${interval_seconds ?? 'any'} s and to be stale after ${stale_seconds} s`,
        async () => {
          const rows = await tables.query(
            `select 1
             from heartbeats beat join nodes on nodes.node_instance_id = beat.node_instance_id
             where nodes.name = $1
               and beat.interval_seconds = coalesce($2, beat.interval_seconds)
               and beat.stale_seconds = $3`,
            [name, interval_seconds, stale_seconds],
          );
          return rows.length > 0;
        },
      ),
    async stop() {
      await tables.close();
      await server.stop();
    },
  };
}
