import { afterAll, beforeAll } from 'vitest';
import { dockerWorld } from '../../../test/support/docker/docker-world.ts';
import { type Podman, startPodman } from '../../../test/support/docker/podman.ts';
import { describeDriver } from '../conformance.ts';

let podman: Podman;
beforeAll(async () => {
  podman = await startPodman();
});
afterAll(() => podman.close());

describeDriver('docker', async () => dockerWorld(podman));
