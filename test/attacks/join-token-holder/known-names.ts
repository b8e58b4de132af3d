/**
 * The holder of a join token, valid or not, attacks machines that are already known in its pool.
 */
import { newKeyPair, publicKeyOf, signed } from '../../../src/agent/connection/keys.ts';
import { moment, systemClock } from '../../../src/base/clock.ts';
import { keyProofBody } from '../../../src/contract/agent/key-proof.ts';
import { httpServer } from '../../../src/probe/testing/loopback-servers.ts';
import { callRoute } from '../../api/support/calls.ts';
import { agentField, molecule, startWorkspace } from '../../api/support/compat-clients.ts';
import { startMachine } from '../../api/support/machine.ts';
import { openTables } from '../../api/support/tables.ts';
import { freePort } from '../../support/free-port.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

const patient = { heartbeat: { stale_after_seconds: 24 * 3600 }, probe: { allow_private: true } };
const ready = { lifecycle_status: 'ready' };

async function poolOf({ client }: SpawnedServer, pool: string, more: object = {}): Promise<string> {
  await client.call('pool-put', { params: { pool }, body: { driver: 'external', ...patient, ...more } });
  return tokenOf({ client }, pool, {});
}

async function tokenOf({ client }: Pick<SpawnedServer, 'client'>, pool: string, body: object): Promise<string> {
  const { token = '' } = await client.call('join-token-create', { params: { pool }, body });
  return token;
}

async function nodeNamed({ client }: SpawnedServer, pool: string, name: string) {
  const { items } = await client.call('node-list', { query: { pool } });
  const node = items.find((each) => each.name === name);
  if (!node) throw new Error(`no node ${name}`);
  return node;
}

/** Allocates the only machine of the pool to a tenant. */
async function allocateTo(server: SpawnedServer, pool: string, name: string): Promise<void> {
  await server.client.call('allocation-create', { body: { pool } });
  await until(
    'the machine to serve a tenant',
    async () => (await nodeNamed(server, pool, name)).allocation_id !== null,
  );
}

/**
 * Molecule workspaces send no goodbye and beat every 30 s, so this sets the status that liveness
 * would set minutes later.
 */
async function putOffline(server: SpawnedServer, pool: string, name: string): Promise<void> {
  const { node_id } = await nodeNamed(server, pool, name);
  const tables = await openTables(server.database_url);
  await tables
    .query("update nodes set status = 'offline', status_since = now() where node_id = $1", [node_id])
    .finally(() => tables.close());
}

const register = (url: string, body: object) => callRoute(url, 'agent-register', { body: { version: '1', ...body } });

/** A machine that joined with a key, and the proofs that it signs. */
async function keyedMachine(server: SpawnedServer, pool: string) {
  const join_token = await poolOf(server, pool);
  const private_key = newKeyPair();
  const registration = { join_token, name: 'victim', agent_public_key: publicKeyOf(private_key) };
  await register(server.url, registration);
  const proofAt = (ms: number) => {
    const signed_at = moment(ms).toISOString();
    return { signed_at, signature: signed(private_key, keyProofBody({ ...registration, signed_at })) };
  };
  return { registration, proofAt };
}

const expiryIgnored = {
  file: 'src/api/compat/join-grants.ts',
  find: "hasExpired(grant, now) ? 'expired' : 'valid'",
  replace: "'valid'",
};

/** Waits until the token is refused, or until a second after its expiry. */
async function waitForExpiry(
  server: SpawnedServer,
  pool: string,
  use: (token: string) => Promise<unknown>,
): Promise<string> {
  const ttl_seconds = 2;
  const token = await tokenOf(server, pool, { ttl_seconds });
  const started = systemClock.monotonicMs();
  await use(token);
  await until('the token to have expired', async () => systemClock.monotonicMs() - started > (ttl_seconds + 1) * 1000);
  return token;
}

export const knownNameAttacks: Attack[] = [
  {
    name: "takes a tenant's AgentField machine offline with an expired join token from the cache",
    without: [expiryIgnored],
    async succeeds(server) {
      const pool = 'expired-beats';
      await poolOf(server, pool);
      const token = await waitForExpiry(server, pool, (fresh) =>
        agentField(server.url, fresh).register('victim', ready),
      );
      await allocateTo(server, pool, 'victim');
      await agentField(server.url, token).call('POST', '/nodes/victim/shutdown', {});
      return (await nodeNamed(server, pool, 'victim')).status === 'offline';
    },
  },
  {
    name: "takes over a tenant's machine by its name",
    without: [
      {
        file: 'src/store/agents/register.ts',
        find: 'if (!arrival) return registerWithKeyProof(tx, existing, join, joinRequest, context);',
        replace: 'if (!arrival) return registerNewInstance(tx, existing, join, joinRequest, context);',
      },
    ],
    async succeeds(server) {
      const pool = 'native-takeover';
      const join_token = await poolOf(server, pool);
      const victim = await startMachine(server.url, { join_token, name: 'victim' });
      await victim.beat('ready');
      await allocateTo(server, pool, 'victim');
      await victim.beat('stopping');
      const { status, body } = await register(server.url, { join_token, name: 'victim', base_url: 'http://6.6.6.6' });
      return status === 201 && body.node_id === victim.node_id;
    },
  },
  {
    name: 'takes over a machine with an expired join token',
    without: [
      {
        file: 'src/store/agents/joins/token-validity.ts',
        find: '  if (hasExpired(join, now)) throw expiredProblem(join);\n',
        replace: '',
      },
      {
        file: 'src/store/agents/register.ts',
        find: 'if (!arrival) return registerWithKeyProof(tx, existing, join, joinRequest, context);',
        replace: 'if (!arrival) return registerNewInstance(tx, existing, join, joinRequest, context);',
      },
    ],
    async succeeds(server) {
      const pool = 'expired-takeover';
      const valid = await poolOf(server, pool);
      const victim = await startMachine(server.url, { join_token: valid, name: 'victim' });
      await victim.beat('ready');
      await victim.beat('stopping');
      const join_token = await waitForExpiry(server, pool, async () => {});
      return (await register(server.url, { join_token, name: 'victim' })).status === 201;
    },
  },
  {
    name: 'replays the recorded proof of a key',
    without: [
      {
        file: 'src/store/agents/joins/key-proof.ts',
        find: 'if (key_proven_at && signed_at <= key_proven_at)',
        replace: 'if (key_proven_at === undefined)',
      },
    ],
    async succeeds(server) {
      const { registration, proofAt } = await keyedMachine(server, 'replayed');
      const key_proof = proofAt(systemClock.nowMs());
      const lawful = await register(server.url, { ...registration, key_proof });
      if (lawful.status !== 200) throw new Error(`the machine itself was refused: ${lawful.text}`);
      return (await register(server.url, { ...registration, key_proof })).status === 200;
    },
  },
  {
    name: 'uses an old, unsent proof of a key',
    without: [
      {
        file: 'src/store/agents/joins/key-proof.ts',
        find: "if (Math.abs(secondsBetween(signed_at, now)) > maxSkewSeconds) return { proven: false, because: 'stale' };",
        replace: '',
      },
    ],
    async succeeds(server) {
      const { registration, proofAt } = await keyedMachine(server, 'stale-proof');
      const key_proof = proofAt(systemClock.nowMs() - 10 * 60_000);
      return (await register(server.url, { ...registration, key_proof })).status === 200;
    },
  },
  {
    name: 'sends the recorded proof of a key along with a key of its own',
    without: [
      {
        file: 'src/store/agents/joins/key-proof.ts',
        find: "agent_public_key: request.agent_public_key ?? ''",
        replace: 'agent_public_key: public_key',
      },
    ],
    async succeeds(server) {
      const { registration, proofAt } = await keyedMachine(server, 'foreign-key');
      const key_proof = proofAt(systemClock.nowMs());
      const agent_public_key = publicKeyOf(newKeyPair());
      return (await register(server.url, { ...registration, agent_public_key, key_proof })).status === 200;
    },
  },
  {
    name: 'returns as another AgentField machine with a spent join token',
    without: [
      {
        file: 'src/store/agents/joins/known-names.ts',
        find: 'if (known.length === 0 && !(await spendJoinToken(tx, join.token_id, 1))) throw spentProblem(join);',
        replace: 'if (known.length < 0) throw spentProblem(join);',
      },
    ],
    async succeeds(server) {
      const pool = 'spent';
      const valid = await poolOf(server, pool);
      const spent = await tokenOf(server, pool, { max_uses: 1 });
      const base_url = `http://127.0.0.1:${await freePort()}`;
      await agentField(server.url, valid).register('victim', { ...ready, base_url });
      const attacker = agentField(server.url, spent);
      await attacker.register('own', ready);
      return (await attacker.register('victim', { ...ready, base_url })).status === 201;
    },
  },
  {
    name: "moves a tenant's AgentField machine to its own address",
    without: [
      {
        file: 'src/lifecycle/joins/contest.ts',
        find: "  if (facts.serves_tenant) return 'other_endpoint';\n",
        replace: '',
      },
    ],
    async succeeds(server) {
      const pool = 'moved';
      const token = await poolOf(server, pool);
      const client = agentField(server.url, token);
      const own = `http://127.0.0.1:${await freePort()}`;
      await client.register('victim', { ...ready, base_url: own });
      await allocateTo(server, pool, 'victim');
      await client.register('victim', { ...ready, instance_id: 'x', base_url: 'http://127.0.0.1:1' });
      return (await nodeNamed(server, pool, 'victim')).endpoint !== own;
    },
  },
  {
    name: 'takes the name of a running AgentField process',
    without: [
      {
        file: 'src/lifecycle/joins/contest.ts',
        find: "return answered === 'yes' ? 'second_process' : 'restart';",
        replace: "return 'restart';",
      },
    ],
    async succeeds(server) {
      const pool = 'live-name';
      const client = agentField(server.url, await poolOf(server, pool));
      const { port } = await httpServer((_, reply) => reply.end('well'));
      await client.register('victim', { ...ready, instance_id: 'first', base_url: `http://127.0.0.1:${port}` });
      const second = { ...ready, instance_id: 'second', base_url: `http://127.0.0.1:${await freePort()}` };
      return (await client.register('victim', second)).status === 201;
    },
  },
  {
    name: 'takes the name of a machine with a credential through AgentField',
    without: [
      {
        file: 'src/api/compat/restart.ts',
        find: "if (standing.protocol !== claimant.protocol) return nameHeld.includes(standing.status) ? 'name_held' : 'key_unproven';",
        replace: '',
      },
    ],
    async succeeds(server) {
      const pool = 'through-agentfield';
      const join_token = await poolOf(server, pool);
      const victim = await startMachine(server.url, { join_token, name: 'victim' });
      await victim.beat('ready');
      await victim.beat('stopping');
      return (await agentField(server.url, join_token).register('victim', ready)).status === 201;
    },
  },
  {
    name: "takes over a tenant's offline molecule workspace by its address",
    without: [
      {
        file: 'src/lifecycle/joins/contest.ts',
        find: "  if (facts.serves_tenant && facts.has_credential) return 'key_unproven';\n",
        replace: '',
      },
    ],
    async succeeds(server) {
      const pool = 'workspace-takeover';
      const id = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7e03';
      const token = await poolOf(server, pool);
      const url = `http://127.0.0.1:${await freePort()}`;
      const victim = await startWorkspace(server.url, token, id, { url });
      await victim.beat();
      await allocateTo(server, pool, id);
      await putOffline(server, pool, id);
      const taken = await molecule(server.url, token, '/registry/register', { body: { id, url } });
      return typeof taken.body.auth_token === 'string';
    },
  },
  {
    name: 'reads the address of a machine of another protocol through AgentField',
    without: [
      {
        file: 'src/store/rows/nodes.ts',
        find: 'where current.node_instance_id = node.node_instance_id and current.door = $2)',
        replace: 'where current.node_instance_id = node.node_instance_id and $2::text is not null)',
      },
    ],
    async succeeds(server) {
      const pool = 'foreign-reads';
      const join_token = await poolOf(server, pool);
      const base_url = 'http://10.6.6.6:8000';
      await register(server.url, { join_token, name: 'victim', base_url });
      const client = agentField(server.url, join_token);
      const answers = [await client.call('GET', '/nodes/victim'), await client.call('GET', '/nodes')];
      return answers.some(({ text }) => text.includes(base_url));
    },
  },
  {
    name: 'joins a pool beyond max_nodes',
    without: [
      {
        file: 'src/store/agents/join-newcomers.ts',
        find: 'const refused = await joinsBeyondLimit(tx, valid);',
        replace: 'const refused = await joinsBeyondLimit(tx, valid.slice(0, 0));',
      },
    ],
    async succeeds(server) {
      const join_token = await poolOf(server, 'small', { max_nodes: 2 });
      const names = Array.from({ length: 6 }, (_, place) => `machine-${place}`);
      const answers = await Promise.all(names.map((name) => register(server.url, { join_token, name })));
      return answers.filter(({ status }) => status === 201).length > 2;
    },
  },
  {
    name: 'reports a failed boot of a machine with an agent through molecule',
    without: [
      {
        file: 'src/api/compat/molecule.ts',
        find: 'if (node?.protocol !== protocol)',
        replace: 'if (!node)',
      },
    ],
    async succeeds(server) {
      const name = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7e01';
      const join_token = await poolOf(server, 'watched-native');
      await startMachine(server.url, { join_token, name });
      const body = { error: 'Kernel panic - not syncing' };
      const path = `/admin/workspaces/${name}/bootstrap-failed`;
      return (await molecule(server.url, join_token, path, { body })).status === 200;
    },
  },
  {
    name: 'reports a failed boot with an expired join token',
    without: [expiryIgnored],
    async succeeds(server) {
      const pool = 'watched-expired';
      const id = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7e02';
      await poolOf(server, pool);
      const token = await waitForExpiry(server, pool, (fresh) =>
        molecule(server.url, fresh, '/registry/register', { body: { id } }),
      );
      const path = `/admin/workspaces/${id}/bootstrap-failed`;
      return (await molecule(server.url, token, path, { body: { error: 'it failed' } })).status === 200;
    },
  },
];
