/**
 * A server with cloud accounts. No secret of an account may appear in anything the server stores or
 * shows, whatever the clouds answer. A cloud that never answers does not block a cancellation.
 */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { secondsBetween } from '../../../src/base/clock.ts';
import { allocate, readAllocation, release, waitForStatus } from '../../support/allocations.ts';
import { usualSpec as clusterSpec } from '../../support/arm/aks-fixture.ts';
import { type Arm, startArm } from '../../support/arm/arm.ts';
import { paths } from '../../support/arm/faults.ts';
import { Refusal } from '../../support/arm/refusal.ts';
import { type DatabaseConnection, openDatabaseConnection } from '../../support/database-connection.ts';
import { accountSecrets, usualSpec as machineSpec } from '../../support/ec2/ec2-fixture.ts';
import { type Ec2Server, startEc2 } from '../../support/ec2/ec2-server.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

/** Part of the address of an Azure operation, which grants access to that operation. */
const signature = 'planted-signature-of-an-address';

let arm: Arm;
let ec2: Ec2Server;
let server: SpawnedServer;
let db: DatabaseConnection;

beforeAll(async () => {
  arm = await startArm();
  ec2 = await startEc2();
  const env = { ...arm.environment(), ...accountSecrets, SLIPWAY_EC2_ENDPOINT: ec2.endpoint };
  server = await spawnServer({ env, args: ['--log-level', 'trace'] });
  db = await openDatabaseConnection(server.database_url);
  const release = { step_tries: 1, retry_base_seconds: 3600 };
  await server.client.call('pool-put', {
    params: { pool: 'clusters' },
    body: { driver: 'aks', spec: clusterSpec(arm.subscription_id), release },
  });
  await server.client.call('pool-put', {
    params: { pool: 'cloud' },
    body: { driver: 'ec2', spec: machineSpec, release },
  });
});
afterAll(async () => {
  await db?.close();
  await server?.stop();
  await ec2?.close();
  await arm?.stop();
});

/** Every row of every table, of the product and of its engine, as text. */
async function readAllRows(): Promise<string> {
  const tables = await db.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname in ('public', 'dbos')
     and tablename not in (select relid::regclass::text from pg_partition_tree('evidence') where not isleaf)`,
  );
  const texts: string[] = [];
  for (const { name } of tables)
    for (const { text } of await db.query<{ text: string }>(`select each::text as text from ${name} each`))
      texts.push(text);
  return texts.join('\n');
}

const refusalQuoting = (secrets: string[]) => `denied for ${secrets.join(' and ')}, as you said`;

test('redacts the secrets that a cloud quotes, in every record', async () => {
  const { client } = server;
  // A machine comes up and goes down again in both clouds.
  const cluster = await allocate(client, 'clusters');
  await waitForStatus(client, cluster, 'active');
  const machine = await allocate(client, 'cloud');
  await until('the machine to be requested', () => ec2.queries.some(({ action }) => action === 'RunInstances'));
  await release(client, cluster);
  await release(client, machine);
  await waitForStatus(client, cluster, 'released');
  await waitForStatus(client, machine, 'released');

  // Launches are refused, with messages that quote secrets.
  const azureSecrets = [
    arm.client_secret,
    `Bearer arm-planted-token-of-somebody`,
    `${arm.url}/op?t=1&c=c&s=${signature}&h=h`,
  ];
  arm.faults.next({
    method: 'PUT',
    path: paths.cluster,
    times: 9,
    effect: new Refusal(403, 'AuthorizationFailed', refusalQuoting(azureSecrets)),
  });
  const awsSecrets = Object.values(accountSecrets).filter((secret) => secret !== accountSecrets.AWS_ACCESS_KEY_ID);
  ec2.plant('RunInstances', { refuse: 'SignatureDoesNotMatch', message: refusalQuoting(awsSecrets), status: 403 });
  const refusedIds = [await allocate(client, 'clusters'), await allocate(client, 'cloud')];
  for (const id of refusedIds) {
    const { reason } = await waitForStatus(client, id, 'failed');
    expect(reason).toContain('denied for');
    // The timeline shows facts once every earlier transaction of the database has ended.
    await until('the timeline to show the refusal', async () => {
      const { items } = await client.call('timeline-get', { query: { allocation_id: id, limit: 500 } });
      return items.length > 3;
    });
  }
  arm.faults.clear();
  ec2.heal();
  for (const id of refusedIds) await release(client, id);
  for (const id of refusedIds) await waitForStatus(client, id, 'released');

  const outputs = { 'the log': server.output(), 'the store': await readAllRows() };
  // The records contain the refusals, so they were not simply dropped.
  expect(outputs['the store']).toContain('denied for');
  expect(outputs['the log'].length).toBeGreaterThan(1000);
  const secrets = [arm.client_secret, 'arm-planted-token-', signature, ...awsSecrets];
  for (const [place, text] of Object.entries(outputs))
    for (const secret of secrets) expect(text.includes(secret), `${secret} in ${place}`).toBe(false);
});

describe('a cloud that accepts requests and never answers', () => {
  const clouds = [
    { cloud: 'aks', pool: 'clusters', hang: () => arm.hang(), resume: () => arm.resume() },
    { cloud: 'ec2', pool: 'cloud', hang: () => ec2.plant('*', 'hang'), resume: () => ec2.heal() },
  ];
  test.each(clouds)('$cloud: does not block a cancellation', async ({ cloud, pool, hang, resume }) => {
    const { client } = server;
    hang();
    const id = await allocate(client, pool);
    const workflow_id = await until('the machine to be requested', async () => {
      const { progress } = await readAllocation(client, id);
      return progress && progress.step > 1 ? progress.workflow_id : undefined;
    });
    const requestedAt = new Date((await release(client, id)).operation?.created_at ?? '');
    const cancelledAt = await until('the provision to be cancelled', async () => {
      const { status, finished_at } = await client.call('operation-get', { params: { id: workflow_id } });
      return status === 'cancelled' ? new Date(finished_at ?? '') : undefined;
    });
    console.log(
      `${cloud}: cancelled ${secondsBetween(requestedAt, cancelledAt).toFixed(1)} s after the release was requested`,
    );
    resume();
    await waitForStatus(client, id, 'released');
  });
});
