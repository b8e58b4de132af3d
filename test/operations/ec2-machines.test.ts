/**
 * Tests the EC2 driver against a fake EC2 whose machines run their user data as real processes. The
 * machines fetch the agent, register, become ready, and are proven gone.
 */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { tagNames } from '../../src/drivers/ec2/tags.ts';
import { max_user_data_bytes } from '../../src/drivers/ec2/user-data.ts';
import { type DatabaseConnection, openDatabaseConnection } from '../support/database-connection.ts';
import { type BootingMachines, bootingMachines } from '../support/ec2/booting.ts';
import { accountSecrets, usualSpec } from '../support/ec2/ec2-fixture.ts';
import { type Ec2Server, startEc2 } from '../support/ec2/ec2-server.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';

let machines: BootingMachines;
let ec2: Ec2Server;
let server: TestServer;
let db: DatabaseConnection;

const workloadSecret = 'only-the-workload-may-have-this';

beforeAll(async () => {
  Object.assign(process.env, accountSecrets);
  machines = bootingMachines();
  ec2 = await startEc2(machines);
  server = await inProcessServer({ args: ['--ec2-endpoint', ec2.endpoint] });
  db = await openDatabaseConnection(server.database_url);
  const spec = {
    ...usualSpec,
    prepare: 'echo before the agent > prepared',
    setup: 'echo set up',
    command: [process.execPath, '-e', 'setInterval(() => {}, 1000)'],
    env: { API_TOKEN: workloadSecret },
  };
  await server.client.call('pool-put', { params: { pool: 'cloud' }, body: { driver: 'ec2', spec } });
});
afterAll(async () => {
  await db.close();
  await server.stop();
  await ec2.close();
  machines.close();
});

const allocate = async () =>
  (await server.client.call('allocation-create', { body: { pool: 'cloud' } })).allocation.allocation_id;

const untilAllocation = (id: string, ...statuses: string[]) =>
  until(`allocation to be ${statuses.join(' or ')}`, async () => {
    const allocation = await server.client.call('allocation-get', { params: { id } });
    return statuses.includes(allocation.status) ? allocation : undefined;
  });

const newestInstance = () => {
  const instance = [...ec2.account.instances.values()].at(-1);
  if (!instance) throw new Error('no instance was launched');
  return instance;
};

it('launches a machine that fetches the agent and becomes ready, and proves the machine gone after the release', async () => {
  const active = await untilAllocation(await allocate(), 'active', 'failed');
  expect(active, newestInstance().console).toMatchObject({ status: 'active' });
  const instance = newestInstance();
  expect(instance.tags).toMatchObject({ [tagNames.node_id]: active.node_id, [tagNames.pool]: 'cloud' });
  expect(instance.console).toContain('slipway: starting the agent');
  const home = join(machines.diskOf(instance), '/var/lib/slipway');
  expect(readFileSync(join(home, 'prepared'), 'utf8')).toBe('before the agent\n');
  const agentFile = statSync(join(home, 'agent.json'));
  expect(agentFile.mode & 0o777, 'mode of the file with the token').toBe(0o600);
  const userData = Buffer.from(instance.fields.get('UserData') ?? '', 'base64');
  expect(userData.length).toBeLessThan(max_user_data_bytes / 2);

  await server.client.call('allocation-release', { params: { id: active.allocation_id } });
  await untilAllocation(active.allocation_id, 'released');
  expect(instance.state).toBe('terminated');
  expect(ec2.account.attachments.size).toBe(0);
  expect(await db.countEvidence(active.allocation_id, 'proof.absent')).toBe(1);
});

it('fails the allocation with the code of the boot script if the image has no Node.js', async () => {
  machines.setHasNode(false);
  const failed = await untilAllocation(await allocate(), 'failed');
  machines.setHasNode(true);
  expect(failed.reason).toContain('node_missing');
});

it('stores no secret of the EC2 account, of a machine or of its workload', async () => {
  const rows = await db.query<{ text: string }>(
    `select e::text as text from evidence e
     union all
     select o::text from operations o
     union all
     select i.driver_state::text from instances i`,
  );
  expect(rows.length).toBeGreaterThan(0);
  for (const { text } of rows) {
    expect(text, 'an enrolment token').not.toMatch(/swe_[\w.-]{8}/);
    for (const secret of [...Object.values(accountSecrets), workloadSecret]) expect(text).not.toContain(secret);
  }
});
