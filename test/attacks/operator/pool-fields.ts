/**
 * A viewer or operator tries to read secrets in pools, in the secret store or in the audit, or to
 * gain rights by changing a pool.
 */
import { RequestRefused } from '../../../src/contract/client.ts';
import type { Pool, PoolDocument } from '../../../src/contract/pool.ts';
import type { Role } from '../../../src/contract/security/token.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

let names = 0;
const newName = (kind: string) => `${kind}-${++names}`;

async function clientWithRole({ client, as }: SpawnedServer, role: Role) {
  const { token } = await client.call('token-create', { body: { name: newName(role), role } });
  return as(token ?? '');
}

async function declareNewPool({ client }: SpawnedServer, document: PoolDocument): Promise<string> {
  const pool = newName('pool');
  await client.call('pool-put', { params: { pool }, body: document });
  return pool;
}

const secret = 'tamarind-lantern-58';
const poolWithSecret: PoolDocument = {
  driver: 'local',
  spec: { env: { GREETING: secret }, setup: `: ${secret}`, command: ['true', secret] },
  requires: [{ name: 'check', check: `: ${secret}` }],
};

const ec2Pool: PoolDocument = {
  driver: 'ec2',
  spec: { region: 'eu-central-1', image_id: 'ami-0123456789abcdef0', instance_type: 't3.small' },
};

/** Whether the server accepts an operator's change to a new pool with this document. */
async function operatorCanChange(
  server: SpawnedServer,
  document: PoolDocument,
  change: (read: PoolDocument) => PoolDocument,
): Promise<boolean> {
  const pool = await declareNewPool(server, document);
  const operator = await clientWithRole(server, 'operator');
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

const privilegedFile = 'src/contract/pool-fields/privileged.ts';
const maskedFile = 'src/contract/pool-fields/masked.ts';
const privilegeCheck = {
  file: 'src/api/routes/pools.ts',
  find: 'if (!isAdmin) checkPrivileged(stored, document, services);',
  replace: '',
};

/** Whether the audit shows a secret that another operator wrote into a reason. */
async function isShownInAudit(server: SpawnedServer, pasted: string): Promise<boolean> {
  const pool = await declareNewPool(server, { driver: 'external' });
  const operator = await clientWithRole(server, 'operator');
  const reader = await clientWithRole(server, 'operator');
  await operator.call('pool-budget', { params: { pool }, body: { budget_seconds: 321, reason: `see ${pasted}` } });
  // The audit shows a row only after every older transaction of the database server has ended.
  const audit = await until('the change in the audit', async () => {
    const { items } = await reader.call('audit-list', { query: { limit: 20 } });
    return items.map((item) => JSON.stringify(item)).find((item) => item.includes(pool) && item.includes('see '));
  });
  return audit.includes(pasted);
}

export const poolFieldAttacks: Attack[] = [
  {
    name: 'reads the environment and scripts of pools as a viewer',
    without: [{ file: maskedFile, find: "role === 'admin' ? pool : maskPool(pool)", replace: 'role ? pool : pool' }],
    async succeeds(server) {
      const pool = await declareNewPool(server, poolWithSecret);
      const viewer = await clientWithRole(server, 'viewer');
      const read: Pool[] = [
        await viewer.call('pool-get', { params: { pool } }),
        ...(await viewer.call('pool-list', {})).items,
      ];
      return JSON.stringify(read).includes(secret);
    },
  },
  {
    name: 'reads the environment and scripts of a pool in the answer to a budget change',
    without: [
      { file: 'src/api/routes/boots.ts', find: 'return poolFor(person().role, pool);', replace: 'return pool;' },
    ],
    async succeeds(server) {
      const pool = await declareNewPool(server, poolWithSecret);
      const operator = await clientWithRole(server, 'operator');
      const body = { budget_seconds: 444, reason: 'test' };
      return JSON.stringify(await operator.call('pool-budget', { params: { pool }, body })).includes(secret);
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
      const viewer = await clientWithRole(server, 'viewer');
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
      const value = `${newName('juniper')} over the water`;
      await server.client.call('secret-put', { params: { name: newName('secret') }, body: { value } });
      return isShownInAudit(server, value);
    },
  },
  {
    name: 'runs a command on external machines through a prerequisite',
    without: [privilegeCheck],
    succeeds: (server) =>
      operatorCanChange(server, { driver: 'external' }, (read) => ({
        ...read,
        requires: [{ name: 'root', check: 'id > owned' }],
      })),
  },
  {
    name: 'makes the server probe private addresses',
    without: [privilegeCheck],
    succeeds: (server) =>
      operatorCanChange(server, { driver: 'external' }, (read) => ({ ...read, probe: { allow_private: true } })),
  },
  {
    name: 'gives machines an IAM role',
    without: [
      {
        file: privilegedFile,
        find: "ec2Field('iam_instance_profile', 'iam_instance_profiles', 'it gives the machines an IAM role'),",
        replace: '',
      },
    ],
    succeeds: (server) => operatorCanChange(server, ec2Pool, withSpec({ iam_instance_profile: 'administrator' })),
  },
  {
    name: 'runs a script on machines that have an IAM role',
    without: [
      { file: privilegedFile, find: "['prepare', 'setup', 'command', 'clean', 'env']", replace: "['prepare']" },
    ],
    succeeds: (server) =>
      operatorCanChange(
        server,
        { ...ec2Pool, spec: { ...ec2Pool.spec, iam_instance_profile: 'worker' } },
        withSpec({ setup: 'curl http://169.254.169.254/' }),
      ),
  },
  {
    name: 'moves machines into another network',
    without: [
      {
        file: privilegedFile,
        find: "ec2Field('subnet_id', 'subnet_ids', 'it decides which network the machines are in'),",
        replace: '',
      },
    ],
    succeeds: (server) => operatorCanChange(server, ec2Pool, withSpec({ subnet_id: 'subnet-0123456789abcdef0' })),
  },
  {
    name: "runs a command on the control plane's host by changing a local pool",
    without: [
      {
        file: privilegedFile,
        find: "{ driver: 'local', path: ['spec'], allowed_by: null, reason: runsOnThisHostReason },",
        replace: '',
      },
    ],
    succeeds: (server) => operatorCanChange(server, { driver: 'local' }, withSpec({ setup: 'id' })),
  },
  {
    name: 'destroys stored values by sending their masks back',
    without: [
      privilegeCheck,
      { file: maskedFile, find: 'if (!isMasked(value)) return value;', replace: 'return value;' },
    ],
    async succeeds(server) {
      const pool = await declareNewPool(server, poolWithSecret);
      const operator = await clientWithRole(server, 'operator');
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
      return !JSON.stringify(await server.client.call('pool-get', { params: { pool } })).includes(secret);
    },
  },
  {
    name: 'reads an API key in the audit that is recognizable only by its prefix',
    without: [{ file: 'src/base/redaction/issued-formats.ts', find: "'sk_live_', ", replace: '' }],
    succeeds: (server) => isShownInAudit(server, `sk_${'live'}_${'aB3dE5fG7hJ9kLmNpQ2rS4tU'}`),
  },
  {
    name: 'reads a password from a command line in the audit',
    without: [
      { file: 'src/base/redaction/patterns.ts', find: '`((?<![\\\\w-])--?(?:', replace: '`((?<![\\\\w-])---never(?:' },
    ],
    succeeds: (server) => isShownInAudit(server, `mysql --password ${'tulip'}-9`),
  },
];
