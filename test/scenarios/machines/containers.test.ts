/** Runs the container stories on Podman. `test/outsiders/docker.test.ts` runs them on Docker. */
import { startPodman } from '../../support/docker/podman.ts';
import {
  containerCounterTests,
  describeContainerDeadlines,
  describeContainers,
  stageWith,
} from '../support/containers.ts';

const stage = stageWith(startPodman);
describeContainers(stage, 20, containerCounterTests);
describeContainerDeadlines(stage);
