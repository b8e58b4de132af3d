/** Runs the container stories on Podman. `test/outsiders/docker.test.ts` runs them on Docker. */
import { startPodman } from '../../support/docker/podman.ts';
import {
  containerCounterTests,
  containerHost,
  describeContainerDeadlines,
  describeContainers,
} from '../support/containers.ts';

const host = containerHost(startPodman);
describeContainers(host, 20, containerCounterTests);
describeContainerDeadlines(host);
