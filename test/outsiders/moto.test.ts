/**
 * Launches machines on moto, an EC2 imitation that shares no code with our fake EC2 server. The
 * test kills our server during each launch. moto ignores client tokens, so only the server's own
 * records and lookups prevent a second launch.
 */
import { DescribeInstancesCommand, EC2Client } from '@aws-sdk/client-ec2';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { tagNames } from '../../src/drivers/ec2/tags.ts';
import { waitForStatus } from '../support/allocations.ts';
import { type DatabaseConnection, openDatabaseConnection } from '../support/database-connection.ts';
import { accountSecrets, region } from '../support/ec2/ec2-fixture.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { type Moto, startMoto } from './support/moto.ts';
import { share, withOutsider } from './support/outsider.ts';

/** An image in moto's catalogue. moto runs no software, so the machine never registers. */
const image_id = 'ami-12c6146b';
const killMoments = ['the operation runs', 'the machine is launched'] as const;
const rounds = share(1, 3);
/** The new server resumes the operation only after the lease of the killed server has ended. */
const patience = { seconds: 120 };

withOutsider('moto', (outsider) => {
  let moto: Moto;
  let ec2: EC2Client;
  let firstServer: SpawnedServer;
  let server: SpawnedServer;
  let db: DatabaseConnection;
  const startedServers: SpawnedServer[] = [];
  const serverEnv: Record<string, string> = { ...accountSecrets };

  /** Starts a server. Every later server uses the database and the port of the first. */
  const startServer = async () => {
    server = await spawnServer({
      env: serverEnv,
      ...(firstServer && { beside: firstServer, port: Number(new URL(firstServer.url).port) }),
    });
    firstServer ??= server;
    startedServers.unshift(server);
  };

  beforeAll(async () => {
    moto = await startMoto(outsider);
    const { endpoint } = moto;
    const [accessKeyId, secretAccessKey] = [accountSecrets.AWS_ACCESS_KEY_ID, accountSecrets.AWS_SECRET_ACCESS_KEY];
    ec2 = new EC2Client({ endpoint, region, credentials: { accessKeyId, secretAccessKey } });
    serverEnv.SLIPWAY_EC2_ENDPOINT = endpoint;
    await startServer();
    db = await openDatabaseConnection(server.database_url);
    await server.client.call('pool-put', {
      params: { pool: 'cloud' },
      body: { driver: 'ec2', spec: { region, image_id, instance_type: 't3.small' } },
    });
  });
  afterAll(async () => {
    await db?.close();
    for (const each of startedServers) if (each !== firstServer) await each.stop();
    await firstServer?.stop();
    ec2?.destroy();
    moto?.stop();
  });

  /** Returns the EC2 states of all machines ever launched for this node. */
  const readMachineStates = async (node_id: string): Promise<string[]> => {
    const { Reservations = [] } = await ec2.send(
      new DescribeInstancesCommand({ Filters: [{ Name: `tag:${tagNames.node_id}`, Values: [node_id] }] }),
    );
    return Reservations.flatMap(({ Instances = [] }) => Instances.map(({ State }) => State?.Name ?? ''));
  };

  /** Waits until the allocation has a node and an operation runs on that node. */
  const waitForNode = (id: string) =>
    until('a node with a running operation', async () => {
      const [row] = await db.query<{ node_id: string | null }>(
        `select allocation.node_id from allocations allocation join operations on operations.node_id = allocation.node_id
         where allocation.allocation_id = $1 and operations.status = 'running'`,
        [id],
      );
      return row?.node_id ?? undefined;
    });

  it.for(killMoments)(
    'launches exactly one machine when the server is killed as soon as %s',
    { timeout: 300_000 },
    async (killMoment) => {
      for (let round = 0; round < rounds; round++) {
        const { allocation } = await server.client.call('allocation-create', { body: { pool: 'cloud' } });
        const id = allocation.allocation_id;
        const node_id = await waitForNode(id);
        if (killMoment === 'the machine is launched')
          await until('moto to launch the machine', async () => (await readMachineStates(node_id)).length > 0, {
            every_ms: 2,
          });
        await server.kill();
        await startServer();
        await until('the machine to run', async () => (await readMachineStates(node_id)).includes('running'), patience);
        await until(
          'the operation to wait for the registration',
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
        expect(await readMachineStates(node_id)).toEqual(['terminated']);
        expect(await db.countEvidence(id, 'proof.absent')).toBe(1);
      }
    },
  );
});
