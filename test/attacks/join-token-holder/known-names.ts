/**
 * The holder of a join token, which may be expired or spent, attacks machines that already joined
 * the token's pool, and the pool's limit `max_nodes`.
 */
import { newKeyPair, publicKeyOf, signatureOf } from '../../../src/agent/connection/keys.ts';
import { moment, systemClock } from '../../../src/base/clock.ts';
import { keyProofBody } from '../../../src/contract/agent/key-proof.ts';
import { httpServer } from '../../../src/probe/testing/loopback-servers.ts';
import { callRoute } from '../../api/support/calls.ts';
import { agentFieldClient, postToMolecule, startWorkspace } from '../../api/support/compat-clients.ts';
import { startMachine } from '../../api/support/machine.ts';
import { openTables } from '../../api/support/tables.ts';
import { freePort } from '../../support/free-port.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

/** Silent machines stay ready for the whole test, and the server may probe 127.0.0.1. */
const poolOptions = { heartbeat: { stale_after_seconds: 24 * 3600 }, probe: { allow_private: true } };
const readyFields = { lifecycle_status: 'ready' };

/** Returns a join token of the new pool. */
async function createPoolWithToken({ client }: SpawnedServer, pool: string, more: object = {}): Promise<string> {
  await client.call('pool-put', { params: { pool }, body: { driver: 'external', ...poolOptions, ...more } });
  return createJoinToken({ client }, pool, {});
}

async function createJoinToken({ client }: Pick<SpawnedServer, 'client'>, pool: string, body: object): Promise<string> {
  const { token = '' } = await client.call('join-token-create', { params: { pool }, body });
  return token;
}

async function findNode({ client }: SpawnedServer, pool: string, name: string) {
  const { items } = await client.call('node-list', { query: { pool } });
  const node = items.find((each) => each.name === name);
  if (!node) throw new Error(`there is no node ${name}`);
  return node;
}

/** Allocates the machine, which must be the only one in the pool. */
async function allocateMachine(server: SpawnedServer, pool: string, name: string): Promise<void> {
  await server.client.call('allocation-create', { body: { pool } });
  await until('the machine to serve a tenant', async () => (await findNode(server, pool, name)).allocation_id !== null);
}

/**
 * Sets the status that the server would set after a day of silence. A molecule workspace cannot go
 * offline sooner by itself, because it sends no goodbye.
 */
async function putOffline(server: SpawnedServer, pool: string, name: string): Promise<void> {
  const { node_id } = await findNode(server, pool, name);
  const tables = await openTables(server.database_url);
  await tables
    .query("update nodes set status = 'offline', status_since = now() where node_id = $1", [node_id])
    .finally(() => tables.close());
}

const register = (url: string, body: object) => callRoute(url, 'agent-register', { body: { version: '1', ...body } });

/**
 * Registers a machine with a key. Returns its registration and a function that signs key proofs.
 */
async function registerWithKey(server: SpawnedServer, pool: string) {
  const join_token = await createPoolWithToken(server, pool);
  const private_key = newKeyPair();
  const registration = { join_token, name: 'victim', agent_public_key: publicKeyOf(private_key) };
  await register(server.url, registration);
  const proofAt = (ms: number) => {
    const signed_at = moment(ms).toISOString();
    return { signed_at, signature: signatureOf(private_key, keyProofBody({ ...registration, signed_at })) };
  };
  return { registration, proofAt };
}

const expiryCheck = {
  file: 'src/api/compat/join-grants.ts',
  find: "hasExpired(grant, now) ? 'expired' : 'valid'",
  replace: "'valid'",
};

/** Creates a join token, uses it while it is valid, and returns it a second after its expiry. */
async function expiredToken(
  server: SpawnedServer,
  pool: string,
  use: (token: string) => Promise<unknown>,
): Promise<string> {
  const ttl_seconds = 2;
  const token = await createJoinToken(server, pool, { ttl_seconds });
  const startedMs = systemClock.monotonicMs();
  await use(token);
  await until(
    'the token to have expired',
    async () => systemClock.monotonicMs() - startedMs > (ttl_seconds + 1) * 1000,
  );
  return token;
}

export const knownNameAttacks: Attack[] = [
  {
    name: "takes a tenant's AgentField machine offline with an expired join token that the server has cached",
    without: [expiryCheck],
    async succeeds(server) {
      const pool = 'expired-beats';
      await createPoolWithToken(server, pool);
      const token = await expiredToken(server, pool, (valid) =>
        agentFieldClient(server.url, valid).register('victim', readyFields),
      );
      await allocateMachine(server, pool, 'victim');
      await agentFieldClient(server.url, token).call('POST', '/nodes/victim/shutdown', {});
      return (await findNode(server, pool, 'victim')).status === 'offline';
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
      const join_token = await createPoolWithToken(server, pool);
      const victim = await startMachine(server.url, { join_token, name: 'victim' });
      await victim.beat('ready');
      await allocateMachine(server, pool, 'victim');
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
      const valid = await createPoolWithToken(server, pool);
      const victim = await startMachine(server.url, { join_token: valid, name: 'victim' });
      await victim.beat('ready');
      await victim.beat('stopping');
      const join_token = await expiredToken(server, pool, async () => {});
      return (await register(server.url, { join_token, name: 'victim' })).status === 201;
    },
  },
  {
    name: 'replays a recorded key proof',
    without: [
      {
        file: 'src/store/agents/agent-keys/proof-time.ts',
        find: "key_proven_at && signed_at <= key_proven_at ? 'replayed' : null",
        replace: 'key_proven_at ? null : null',
      },
    ],
    async succeeds(server) {
      const { registration, proofAt } = await registerWithKey(server, 'replayed');
      const key_proof = proofAt(systemClock.nowMs());
      const first = await register(server.url, { ...registration, key_proof });
      if (first.status !== 200) throw new Error(`the machine itself was refused: ${first.text}`);
      return (await register(server.url, { ...registration, key_proof })).status === 200;
    },
  },
  {
    name: 'registers with a key proof that was signed ten minutes ago',
    without: [
      {
        file: 'src/store/agents/agent-keys/proof-time.ts',
        find: "if (!(Math.abs(secondsBetween(signed_at, now)) <= maxSkewSeconds)) return 'stale';",
        replace: '',
      },
    ],
    async succeeds(server) {
      const { registration, proofAt } = await registerWithKey(server, 'stale-proof');
      const key_proof = proofAt(systemClock.nowMs() - 10 * 60_000);
      return (await register(server.url, { ...registration, key_proof })).status === 200;
    },
  },
  {
    name: "registers the attacker's key with a key proof of the victim",
    without: [
      {
        file: 'src/store/agents/joins/key-proof.ts',
        find: "agent_public_key: request.agent_public_key ?? ''",
        replace: 'agent_public_key: public_key',
      },
    ],
    async succeeds(server) {
      const { registration, proofAt } = await registerWithKey(server, 'foreign-key');
      const key_proof = proofAt(systemClock.nowMs());
      const agent_public_key = publicKeyOf(newKeyPair());
      return (await register(server.url, { ...registration, agent_public_key, key_proof })).status === 200;
    },
  },
  {
    name: 'uses a spent join token to register under the name of another AgentField machine',
    without: [
      {
        file: 'src/store/agents/joins/known-names.ts',
        find: 'if (known.length === 0 && !(await spendJoinToken(tx, join.token_id, 1))) throw spentProblem(join);',
        replace: 'if (known.length < 0) throw spentProblem(join);',
      },
    ],
    async succeeds(server) {
      const pool = 'spent';
      const valid = await createPoolWithToken(server, pool);
      const spentToken = await createJoinToken(server, pool, { max_uses: 1 });
      const base_url = `http://127.0.0.1:${await freePort()}`;
      await agentFieldClient(server.url, valid).register('victim', { ...readyFields, base_url });
      const attacker = agentFieldClient(server.url, spentToken);
      await attacker.register('attacker', readyFields);
      return (await attacker.register('victim', { ...readyFields, base_url })).status === 201;
    },
  },
  {
    name: "moves a tenant's AgentField machine to the attacker's address",
    without: [
      {
        file: 'src/lifecycle/joins/contest.ts',
        find: "  if (facts.serves_tenant) return 'other_endpoint';\n",
        replace: '',
      },
    ],
    async succeeds(server) {
      const pool = 'moved';
      const token = await createPoolWithToken(server, pool);
      const client = agentFieldClient(server.url, token);
      const victimUrl = `http://127.0.0.1:${await freePort()}`;
      await client.register('victim', { ...readyFields, base_url: victimUrl });
      await allocateMachine(server, pool, 'victim');
      await client.register('victim', { ...readyFields, instance_id: 'x', base_url: 'http://127.0.0.1:1' });
      return (await findNode(server, pool, 'victim')).endpoint !== victimUrl;
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
      const client = agentFieldClient(server.url, await createPoolWithToken(server, pool));
      const { port } = await httpServer((_, reply) => reply.end('alive'));
      await client.register('victim', { ...readyFields, instance_id: 'first', base_url: `http://127.0.0.1:${port}` });
      const secondProcess = { ...readyFields, instance_id: 'second', base_url: `http://127.0.0.1:${await freePort()}` };
      return (await client.register('victim', secondProcess)).status === 201;
    },
  },
  {
    name: 'uses AgentField to take the name of a machine that has a credential',
    without: [
      {
        file: 'src/api/compat/restart.ts',
        find: "if (standing.protocol !== claimant.protocol) return isNameHeld(standing.status) ? 'name_held' : 'key_unproven';",
        replace: '',
      },
    ],
    async succeeds(server) {
      const pool = 'through-agentfield';
      const join_token = await createPoolWithToken(server, pool);
      const victim = await startMachine(server.url, { join_token, name: 'victim' });
      await victim.beat('ready');
      await victim.beat('stopping');
      return (await agentFieldClient(server.url, join_token).register('victim', readyFields)).status === 201;
    },
  },
  {
    name: "takes over a tenant's offline molecule workspace by its address",
    without: [
      {
        file: 'src/lifecycle/joins/contest.ts',
        find: "  if (facts.serves_tenant && facts.lacks_credential) return 'key_unproven';\n",
        replace: '',
      },
    ],
    async succeeds(server) {
      const pool = 'workspace-takeover';
      const id = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7e03';
      const token = await createPoolWithToken(server, pool);
      const url = `http://127.0.0.1:${await freePort()}`;
      const victim = await startWorkspace(server.url, token, id, { url });
      await victim.beat();
      await allocateMachine(server, pool, id);
      await putOffline(server, pool, id);
      const answer = await postToMolecule(server.url, token, '/registry/register', { body: { id, url } });
      return typeof answer.body.auth_token === 'string';
    },
  },
  {
    name: 'uses AgentField to read the address of a machine that joined by another protocol',
    without: [
      {
        file: 'src/store/rows/nodes.ts',
        find: 'where current.node_instance_id = node.node_instance_id and current.door = $2)',
        replace: 'where current.node_instance_id = node.node_instance_id and $2::text is not null)',
      },
    ],
    async succeeds(server) {
      const pool = 'foreign-reads';
      const join_token = await createPoolWithToken(server, pool);
      const base_url = 'http://10.6.6.6:8000';
      await register(server.url, { join_token, name: 'victim', base_url });
      const client = agentFieldClient(server.url, join_token);
      const answers = [await client.call('GET', '/nodes/victim'), await client.call('GET', '/nodes')];
      return answers.some(({ text }) => text.includes(base_url));
    },
  },
  {
    name: 'joins a pool beyond max_nodes',
    without: [
      {
        file: 'src/store/agents/join-newcomers.ts',
        find: 'const refused = await findJoinsBeyondLimit(tx, valid);',
        replace: 'const refused = await findJoinsBeyondLimit(tx, valid.slice(0, 0));',
      },
    ],
    async succeeds(server) {
      const join_token = await createPoolWithToken(server, 'small', { max_nodes: 2 });
      const names = Array.from({ length: 6 }, (_, place) => `machine-${place}`);
      const answers = await Promise.all(names.map((name) => register(server.url, { join_token, name })));
      return answers.filter(({ status }) => status === 201).length > 2;
    },
  },
  {
    name: 'uses molecule to report a failed boot of a machine that runs the agent',
    without: [
      {
        file: 'src/api/compat/molecule.ts',
        find: 'if (node?.protocol !== protocol)',
        replace: 'if (!node)',
      },
    ],
    async succeeds(server) {
      const name = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7e01';
      const join_token = await createPoolWithToken(server, 'watched-native');
      await startMachine(server.url, { join_token, name });
      const body = { error: 'Kernel panic - not syncing' };
      const path = `/admin/workspaces/${name}/bootstrap-failed`;
      return (await postToMolecule(server.url, join_token, path, { body })).status === 200;
    },
  },
  {
    name: 'reports a failed boot with an expired join token',
    without: [expiryCheck],
    async succeeds(server) {
      const pool = 'watched-expired';
      const id = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7e02';
      await createPoolWithToken(server, pool);
      const token = await expiredToken(server, pool, (valid) =>
        postToMolecule(server.url, valid, '/registry/register', { body: { id } }),
      );
      const path = `/admin/workspaces/${id}/bootstrap-failed`;
      return (await postToMolecule(server.url, token, path, { body: { error: 'the boot failed' } })).status === 200;
    },
  },
];
