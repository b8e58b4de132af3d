import { describeDockerDriver } from '../../../test/support/docker/driver-tests.ts';
import { startPodman } from '../../../test/support/docker/podman.ts';

describeDockerDriver('podman', startPodman);
