import { afterAll, beforeAll } from 'vitest';
import { dockerFixture } from '../../../test/support/docker/docker-fixture.ts';
import type { TestEngine } from '../../../test/support/docker/engine.ts';
import { startPodman } from '../../../test/support/docker/podman.ts';
import { describeDriver } from '../conformance.ts';

let engine: TestEngine;
beforeAll(async () => {
  engine = await startPodman();
});
afterAll(() => engine.close());

describeDriver('docker', async () => dockerFixture(engine));
