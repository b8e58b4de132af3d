/** Viewers try to read hidden fields of pools; operators try to gain rights by changing pools. */
import { RequestRefused } from '../../../src/contract/client.ts';
import type { Pool, PoolDocument } from '../../../src/contract/pool.ts';
import type { Role } from '../../../src/contract/security/token.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

let names = 0;
const fresh = (kind: string) => `${kind}-${++names}`;

async function as({ client, as: withToken }: SpawnedServer, role: Role) {
  const { token } = await client.call('token-create', { body: { name: fresh(role), role } });
  return withToken(token ?? '');
}

async function declared({ client }: SpawnedServer, document: PoolDocument): Promise<string> {
  const pool = fresh('pool');
  await client.call('pool-put', { params: { pool }, body: document });
  return pool;
}

const hidden = 'tamarind-lantern-58';
const withHidden: PoolDocument = {
  driver: 'local',
  spec: { env: { GREETING: hidden }, setup: `: ${hidden}`, command: ['true', hidden] },
  requires: [{ name: 'check', check: `: ${hidden}` }],
};

const cloud: PoolDocument = {
  driver: 'ec2',
  spec: { region: 'eu-central-1', image_id: 'ami-0123456789abcdef0', instance_type: 't3.small' },
};

/** Whether the server accepted an operator's change of this pool. */
async function operatorSets(
  server: SpawnedServer,
  before: PoolDocument,
  change: (read: PoolDocument) => PoolDocument,
): Promise<boolean> {
  const pool = await declared(server, before);
  const operator = await as(server, 'operator');
  const {
    generation: _,
    created_at: __,
    updated_at: ___,
    nodes: ____,
    ...read
  } = await operator.call('pool-get', {
    params: { pool },
  });
  try {
    await operator.call('pool-put', { params: { pool }, body: change(read) });
    return true;
  } catch (error) {
    if (error instanceof RequestRefused && error.problem.code === 'pool_field_privileged') return false;
    throw error;
  }
}

const withSpec = (change: Record<string, unknown>) => (read: PoolDocument) => ({
  ...read,
  spec: { ...read.spec, ...change },
});

const privileged = 'src/contract/pool-fields/privileged.ts';
const masked = 'src/contract/pool-fields/masked.ts';
const unchecked = {
  file: 'src/api/routes/pools.ts',
  find: 'if (!isAdmin) checkPrivileged(stored, document, services);',
  replace: '',
};

/** A person wrote a secret into a reason; the attacker reads the audit. */
async function shownInAudit(server: SpawnedServer, words: string): Promise<boolean> {
  const pool = await declared(server, { driver: 'external' });
  const operator = await as(server, 'operator');
  const reader = await as(server, 'operator');
  await operator.call('pool-budget', { params: { pool }, body: { budget_seconds: 321, reason: `see ${words}` } });
  // The audit shows a row once every older transaction of the database server has ended.
  const audit = await until('the change in the audit', async () => {
    const { items } = await reader.call('audit-list', { query: { limit: 20 } });
    return items.map((item) => JSON.stringify(item)).find((item) => item.includes(pool) && item.includes('see '));
  });
  return audit.includes(words);
}

export const poolFieldAttacks: Attack[] = [
  {
    name: 'reads the environment and scripts of pools as a viewer',
    without: [{ file: masked, find: "role === 'admin' ? pool : maskPool(pool)", replace: 'role ? pool : pool' }],
    async succeeds(server) {
      const pool = await declared(server, withHidden);
      const viewer = await as(server, 'viewer');
      const read: Pool[] = [
        await viewer.call('pool-get', { params: { pool } }),
        ...(await viewer.call('pool-list', {})).items,
      ];
      return JSON.stringify(read).includes(hidden);
    },
  },
  {
    name: 'reads them in the answer to a budget change',
    without: [
      { file: 'src/api/routes/boots.ts', find: 'return poolFor(person().role, pool);', replace: 'return pool;' },
    ],
    async succeeds(server) {
      const pool = await declared(server, withHidden);
      const operator = await as(server, 'operator');
      const body = { budget_seconds: 444, reason: 'test' };
      return JSON.stringify(await operator.call('pool-budget', { params: { pool }, body })).includes(hidden);
    },
  },
  {
    name: 'lists the stored secrets as a viewer',
    without: [
      {
        file: 'src/contract/routes/secrets.ts',
        find: "summary: 'Names and metadata of all secrets, without their values',\n    tag: 'secrets',\n    access: admin,",
        replace: "summary: '', tag: 'secrets', access: { kind: 'person', role: 'viewer', tenants: 'none' },",
      },
    ],
    async succeeds(server) {
      const viewer = await as(server, 'viewer');
      return viewer.call('secret-list', {}).then(
        () => true,
        (error) => {
          if (error instanceof RequestRefused && error.problem.code === 'role_insufficient') return false;
          throw error;
        },
      );
    },
  },
  {
    name: 'finds a stored secret in the audit after a person pasted it',
    without: [
      { file: 'src/base/redaction/redact.ts', find: 'if (newLiterals.length === 0) return;', replace: 'return;' },
    ],
    async succeeds(server) {
      const value = `${fresh('juniper')} over the water`;
      await server.client.call('secret-put', { params: { name: fresh('secret') }, body: { value } });
      return shownInAudit(server, value);
    },
  },
  {
    name: 'runs a command on external machines through a prerequisite',
    without: [unchecked],
    succeeds: (server) =>
      operatorSets(server, { driver: 'external' }, (read) => ({
        ...read,
        requires: [{ name: 'root', check: 'id > owned' }],
      })),
  },
  {
    name: 'makes the server probe private addresses',
    without: [unchecked],
    succeeds: (server) =>
      operatorSets(server, { driver: 'external' }, (read) => ({ ...read, probe: { allow_private: true } })),
  },
  {
    name: 'gives machines a role of the cloud account',
    without: [
      {
        file: privileged,
        find: "ec2('iam_instance_profile', 'iam_instance_profiles', 'it gives the machines a role of the cloud account'),",
        replace: '',
      },
    ],
    succeeds: (server) => operatorSets(server, cloud, withSpec({ iam_instance_profile: 'administrator' })),
  },
  {
    name: 'runs a script on machines that hold a role of the cloud account',
    without: [{ file: privileged, find: "['prepare', 'setup', 'command', 'clean', 'env']", replace: "['prepare']" }],
    succeeds: (server) =>
      operatorSets(
        server,
        { ...cloud, spec: { ...cloud.spec, iam_instance_profile: 'worker' } },
        withSpec({ setup: 'curl http://169.254.169.254/' }),
      ),
  },
  {
    name: 'moves machines into another network',
    without: [
      {
        file: privileged,
        find: "ec2('subnet_id', 'subnet_ids', 'it decides which network the machines are in'),",
        replace: '',
      },
    ],
    succeeds: (server) => operatorSets(server, cloud, withSpec({ subnet_id: 'subnet-0123456789abcdef0' })),
  },
  {
    name: "runs a command on the control plane's host by changing a local pool",
    without: [
      {
        file: privileged,
        find: "{ driver: 'local', path: ['spec'], allowed_by: null, reason: onThisHost },",
        replace: '',
      },
    ],
    succeeds: (server) => operatorSets(server, { driver: 'local' }, withSpec({ setup: 'id' })),
  },
  {
    name: 'destroys stored values by sending their masks back',
    without: [unchecked, { file: masked, find: 'if (!isMasked(value)) return value;', replace: 'return value;' }],
    async succeeds(server) {
      const pool = await declared(server, withHidden);
      const operator = await as(server, 'operator');
      const {
        generation: _,
        created_at: __,
        updated_at: ___,
        nodes: ____,
        ...read
      } = await operator.call('pool-get', {
        params: { pool },
      });
      await operator.call('pool-put', { params: { pool }, body: { ...read, max_nodes: 9 } });
      return !JSON.stringify(await server.client.call('pool-get', { params: { pool } })).includes(hidden);
    },
  },
  {
    name: 'reads an API key of an unknown format in the audit',
    without: [{ file: 'src/base/redaction/issued-formats.ts', find: "'sk_live_', ", replace: '' }],
    succeeds: (server) => shownInAudit(server, `sk_${'live'}_${'aB3dE5fG7hJ9kLmNpQ2rS4tU'}`),
  },
  {
    name: 'reads a password from a command line in the audit',
    without: [
      { file: 'src/base/redaction/patterns.ts', find: '`((?<![\\\\w-])--?(?:', replace: '`((?<![\\\\w-])---never(?:' },
    ],
    succeeds: (server) => shownInAudit(server, `mysql --password ${'tulip'}-9`),
  },
];
