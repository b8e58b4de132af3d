/**
 * Podman, which answers like Docker, for the tests of the docker driver, and the contents of its
 * test images.
 */
import { install, mayInstall, onPath } from './debian.mjs';

/** Programs, by Debian package. */
const needed = { podman: 'podman', runc: 'runc', busybox: 'busybox-static' };

const missing = () => Object.keys(needed).filter((program) => !onPath(program));

export const podmanStep = {
  doing: "installing Debian's podman for the tests of the docker driver",
  done: 'podman installed',
  needed() {
    if (missing().length === 0) return false;
    if (mayInstall()) return true;
    const packages = Object.values(needed).join(' ');
    return `the tests of the docker driver will fail: install ${missing().join(', ')} (Debian: apt-get install ${packages}).`;
  },
  run: () => install(...missing().map((program) => needed[program])),
};
