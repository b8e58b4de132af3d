/** Clients of the foreign protocols. */
import { expect } from 'vitest';
import type { Log } from '../../../src/base/telemetry/log.ts';
import type { Evidence } from '../../../src/contract/evidence/evidence.ts';
import type { Node } from '../../../src/contract/node.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { type Answer, type Sent, send } from './calls.ts';
import { openTables, type Tables } from './tables.ts';

/** A pool with a join token; its machines send something only when a test does. */
export async function protocolPool(
  { client }: Pick<TestServer, 'client'>,
  pool: string,
  document: object = { heartbeat: { stale_after_seconds: 24 * 3600 } },
): Promise<{ token: string; token_id: string }> {
  await client.call('pool-put', { params: { pool }, body: { driver: 'external', ...document } });
  const { token = '', token_id } = await client.call('join-token-create', { params: { pool }, body: {} });
  return { token, token_id };
}

/** As the SDKs send it, with defaults for omitted fields. */
export const nodeRegistration = (id: string, more: object = {}) => ({
  id,
  team_id: 'default',
  // No probes by default.
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
  ...more,
});

export interface AgentField {
  call(method: string, path: string, body?: unknown, sent?: Sent): Promise<Answer>;
  register(id: string, more?: object): Promise<Answer>;
  beat(id: string, body?: object): Promise<Answer>;
}

/** A client with the token in its base URL, for clients that can change nothing else. */
export function agentField(url: string, token: string): AgentField {
  const call: AgentField['call'] = (method, path, body, sent = {}) =>
    send(url, method, `/compat/agentfield/${token}/api/v1${path}`, { ...(body !== undefined && { body }), ...sent });
  return {
    call,
    register: (id, more) => call('POST', '/nodes/register', nodeRegistration(id, more)),
    // The SDK sends the JSON content type even without a body.
    beat: (id, body) =>
      call('POST', `/nodes/${encodeURIComponent(id)}/heartbeat`, body, {
        headers: { 'content-type': 'application/json' },
      }),
  };
}

export interface Workspace {
  auth_token: string;
  beat(body?: object, sent?: Sent): Promise<Answer>;
}

export const molecule = (url: string, token: string, path: string, sent: Sent): Promise<Answer> =>
  send(url, 'POST', `/compat/molecule/${token}${path}`, sent);

export async function startWorkspace(
  url: string,
  token: string,
  id: string,
  more: object = {},
  sent: Sent = {},
): Promise<Workspace> {
  const { status, body } = await molecule(url, token, '/registry/register', {
    body: { id, agent_card: { name: 'a workspace' }, ...more },
    ...sent,
  });
  if (status !== 200 || typeof body.auth_token !== 'string') throw new Error(`not registered: ${JSON.stringify(body)}`);
  const bearer = body.auth_token;
  return {
    auth_token: bearer,
    beat: (more = {}, sent = { bearer }) =>
      molecule(url, token, '/registry/heartbeat', {
        ...sent,
        body: { workspace_id: id, error_rate: 0, sample_error: '', active_tasks: 0, uptime_seconds: 1, ...more },
      }),
  };
}

/** Checks that a refusal has the shape of the protocol's own servers. */
export function expectTheirError(answer: Answer, status: number, what = ''): void {
  expect(answer.status, `${what} ${answer.text}`).toBe(status);
  expect(answer.headers.get('content-type')).toContain('application/json');
  expect(answer.body, what).toEqual({ error: expect.any(String), code: expect.any(String) });
}

export interface ProtocolFixture extends TestServer {
  tables: Tables;
  /** Join tokens of two pools. */
  join_token: string;
  others: string;
  node(name: string): Promise<Node>;
  status(name: string): Promise<string>;
  fact(node_id: string, kind: string): Promise<Evidence>;
  /**
   * Waits until the machine is judged by this interval, once every heartbeat is stored. Shed
   * heartbeats can lengthen the interval.
   */
  pace(name: string, judged: { interval_seconds?: number; stale_seconds: number }): Promise<boolean>;
}

export async function protocolFixture(options: { args?: string[]; log?: Log } = {}): Promise<ProtocolFixture> {
  const server = await inProcessServer(options);
  const tables = await openTables(server.database_url);
  const { client } = server;
  const node = async (name: string) => {
    const { items } = await client.call('node-list', { query: { q: name } });
    const found = items.find((each) => each.name === name);
    if (!found) throw new Error(`no node ${name}`);
    return found;
  };
  return {
    ...server,
    tables,
    join_token: (await protocolPool(server, 'fleet')).token,
    others: (await protocolPool(server, 'others')).token,
    node,
    status: async (name) => (await node(name)).status,
    fact: (id, kind) =>
      until(`${kind} on the timeline`, async () => {
        const { items } = await client.call('node-timeline', { params: { id }, query: { kind } });
        return items[0];
      }),
    pace: (name, { interval_seconds = null, stale_seconds }) =>
      until(`${name} to be judged by ${interval_seconds ?? 'any'} s and ${stale_seconds} s`, async () => {
        const rows = await tables.query(
          `select 1 from heartbeats beat join nodes on nodes.node_instance_id = beat.node_instance_id
           where nodes.name = $1 and beat.interval_seconds = coalesce($2, beat.interval_seconds) and beat.stale_seconds = $3`,
          [name, interval_seconds, stale_seconds],
        );
        return rows.length > 0;
      }),
    async stop() {
      await tables.close();
      await server.stop();
    },
  };
}
