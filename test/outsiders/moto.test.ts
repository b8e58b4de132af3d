/**
 * Machines on moto, which is independent of our fake EC2 server. Our server is killed during each
 * launch, and moto ignores client tokens, so only our records and lookups prevent a second launch.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { DescribeInstancesCommand, EC2Client } from '@aws-sdk/client-ec2';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { tagNames } from '../../src/drivers/ec2/tags.ts';
import { waitForStatus } from '../support/allocations.ts';
import { type DatabaseConnection, openDatabaseConnection } from '../support/database-connection.ts';
import { accountSecrets, region } from '../support/ec2/ec2-fixture.ts';
import { freePort } from '../support/free-port.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { share, withOutsider } from './support/outsider.ts';

/** An image that moto knows. The machine never runs, so it never registers. */
const image_id = 'ami-12c6146b';
/** When the server is killed: as soon as the operation runs, or as soon as moto has the machine. */
const moments = ['the operation runs', 'the machine is launched'] as const;
const rounds = share(1, 3);
/** Another server resumes the operation of a dead one once its lease has ended. */
const patience = { seconds: 120 };

withOutsider('moto', ({ python, env }) => {
  let moto: ChildProcess;
  let cloud: EC2Client;
  let first: SpawnedServer;
  let server: SpawnedServer;
  let db: DatabaseConnection;
  const started: SpawnedServer[] = [];
  const serverEnv: Record<string, string> = { ...accountSecrets };

  const start = async () => {
    server = await spawnServer({
      env: serverEnv,
      ...(first && { beside: first, port: Number(new URL(first.url).port) }),
    });
    first ??= server;
    started.unshift(server);
  };

  beforeAll(async () => {
    const port = await freePort();
    const endpoint = `http://127.0.0.1:${port}`;
    moto = spawn(python, ['-m', 'moto.server', '-H', '127.0.0.1', '-p', String(port)], {
      env: { ...process.env, ...env },
      stdio: 'ignore',
    });
    const [accessKeyId, secretAccessKey] = [accountSecrets.AWS_ACCESS_KEY_ID, accountSecrets.AWS_SECRET_ACCESS_KEY];
    cloud = new EC2Client({ endpoint, region, credentials: { accessKeyId, secretAccessKey } });
    await until('moto to answer', () =>
      fetch(endpoint).then(
        () => true,
        () => undefined,
      ),
    );
    serverEnv.SLIPWAY_EC2_ENDPOINT = endpoint;
    await start();
    db = await openDatabaseConnection(server.database_url);
    await server.client.call('pool-put', {
      params: { pool: 'cloud' },
      body: { driver: 'ec2', spec: { region, image_id, instance_type: 't3.small' } },
    });
  });
  afterAll(async () => {
    await db?.close();
    for (const each of started) if (each !== first) await each.stop();
    await first?.stop();
    cloud?.destroy();
    moto?.kill('SIGKILL');
  });

  /** The states of all machines that moto ever had for this node. */
  const machinesOf = async (node_id: string): Promise<string[]> => {
    const { Reservations = [] } = await cloud.send(
      new DescribeInstancesCommand({ Filters: [{ Name: `tag:${tagNames.node_id}`, Values: [node_id] }] }),
    );
    return Reservations.flatMap(({ Instances = [] }) => Instances.map(({ State }) => State?.Name ?? ''));
  };

  const nodeOf = (id: string) =>
    until('a node for the allocation', async () => {
      const [row] = await db.query<{ node_id: string | null }>(
        `select allocation.node_id from allocations allocation join operations on operations.node_id = allocation.node_id
         where allocation.allocation_id = $1 and operations.status = 'running'`,
        [id],
      );
      return row?.node_id ?? undefined;
    });

  it.for(moments)(
    'launches one machine although the server is killed once %s',
    { timeout: 300_000 },
    async (moment) => {
      for (let round = 0; round < rounds; round++) {
        const { allocation } = await server.client.call('allocation-create', { body: { pool: 'cloud' } });
        const id = allocation.allocation_id;
        const node_id = await nodeOf(id);
        if (moment === 'the machine is launched')
          await until('the machine', async () => (await machinesOf(node_id)).length > 0, { every_ms: 2 });
        await server.kill();
        await start();
        await until('the machine to run', async () => (await machinesOf(node_id)).includes('running'), patience);
        await until(
          'the server to wait for its registration',
          async () =>
            (await db.countRows(
              `select 1 from steps join operations using (workflow_id)
             where operations.node_id = $1 and steps.name = 'register' and steps.status = 'running'`,
              [node_id],
            )) > 0,
          patience,
        );
        await server.client.call('allocation-release', { params: { id } });
        await waitForStatus(server.client, id, 'released');
        expect(await machinesOf(node_id)).toEqual(['terminated']);
        expect(await db.countEvidence(id, 'proof.absent')).toBe(1);
      }
    },
  );
});
