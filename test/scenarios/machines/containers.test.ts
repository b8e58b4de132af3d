/** Containers of Podman. `test/outsiders/docker.test.ts` tells the same of Docker. */
import { startPodman } from '../../support/docker/podman.ts';
import { containerCounters, stageWith, tellOfContainers, tellOfDeadlines } from '../support/containers.ts';

const stage = stageWith(startPodman);
tellOfContainers(stage, 20, containerCounters);
tellOfDeadlines(stage);
