/** Runs the tests of the docker driver on the Docker daemon. Other suites run them on Podman. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeDriver, handle } from '../../src/drivers/conformance.ts';
import { labelNames } from '../../src/drivers/docker/labels.ts';
import { containerHost, describeContainerDeadlines, describeContainers } from '../scenarios/support/containers.ts';
import { allocate, release, waitForStatus } from '../support/allocations.ts';
import { type DatabaseConnection, openDatabaseConnection } from '../support/database-connection.ts';
import { dockerFixture } from '../support/docker/docker-fixture.ts';
import { dockerdIn } from '../support/docker/dockerd.ts';
import { describeDockerDriver } from '../support/docker/driver-tests.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { isWhole, share, withOutsider } from './support/outsider.ts';

const obstacle = process.getuid?.() === 0 ? undefined : 'dockerd needs root';
/** The new server resumes the operation only after the lease of the killed server has ended. */
const patience = { seconds: 120 };

withOutsider(
  'docker',
  ({ place }) => {
    if (isWhole)
      describe('with Docker defaults', () => {
        const host = containerHost(dockerdIn(place, { live_restore: false }));
        describeContainers(host, 20, []);
        describeContainerDeadlines(host);
        describeDriver('docker', async () => dockerFixture(host.engine));
      });

    // Containers keep running while the daemon is down, so a launch survives a kill of the daemon
    // at any moment.
    describe('with live restore', () => {
      const host = containerHost(dockerdIn(place, { live_restore: true }));
      describeContainers(host, share(1, 5), [], isWhole);

      it('restarts a container whose processes died while the daemon was down', async () => {
        const { engine } = host;
        const fixture = dockerFixture(engine);
        const { target, done } = handle(fixture, fixture.withSpec({}));
        await done('ensure');
        const [container] = await fixture.containersOf(target);
        const inspect = () => engine.call<{ State: State }>('GET', `/containers/${container?.Id}/json`);
        const { Pid: pid } = (await inspect()).body.State;
        const shim = Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
        await engine.stop();
        for (const each of [shim, pid]) process.kill(each, 'SIGKILL');
        await engine.start();
        expect((await inspect()).body.State).toMatchObject({ Status: 'exited', ExitCode: 255 });
        expect(await done('ensure')).toMatchObject({ outcome: 'done', state: { starts: 2 } });
        expect(await fixture.machines(target)).toBe(1);
        await fixture.close();
      });

      let firstServer: SpawnedServer;
      let server: SpawnedServer;
      let db: DatabaseConnection;
      const replacements: SpawnedServer[] = [];
      beforeAll(async () => {
        firstServer = await spawnServer({ args: host.args });
        server = firstServer;
        db = await openDatabaseConnection(firstServer.database_url);
        const spec = { image: host.engine.image, network: 'host' };
        await firstServer.client.call('pool-put', { params: { pool: 'containers' }, body: { driver: 'docker', spec } });
      });
      afterAll(async () => {
        await db?.close();
        for (const each of replacements.toReversed()) await each.stop();
        await firstServer?.stop();
      });
      const listContainers = () => host.engine.containers({ [labelNames.installation_id]: db.installation_id });

      const restart = {
        async server() {
          await server.kill();
          server = await spawnServer({
            args: host.args,
            beside: firstServer,
            port: Number(new URL(firstServer.url).port),
          });
          replacements.push(server);
        },
        async dockerd() {
          await host.engine.stop();
          await host.engine.start();
        },
      };

      it.for(['server', 'dockerd'] as const)(
        'launches exactly one container when the %s is killed as soon as the container exists',
        { timeout: 300_000 },
        async (killed) => {
          const id = await allocate(server.client, 'containers');
          await until('the container to exist', async () => (await listContainers()).length > 0, { every_ms: 2 });
          await restart[killed]();
          await until(
            'the allocation to be active',
            async () => {
              const { allocation_id, status, reason } = await server.client.call('allocation-get', { params: { id } });
              expect(status, `${allocation_id}: ${reason}`).not.toBe('failed');
              return status === 'active';
            },
            patience,
          );
          expect((await listContainers()).map(({ State }) => State)).toEqual(['running']);
          await release(server.client, id);
          await waitForStatus(server.client, id, 'released');
          expect(await listContainers()).toEqual([]);
          expect(await db.countEvidence(id, 'proof.absent')).toBe(1);
        },
      );
    });

    if (isWhole) describeDockerDriver('dockerd', dockerdIn(place, { live_restore: false }));
  },
  obstacle,
);

interface State {
  Status: string;
  ExitCode: number;
  Pid: number;
}
