/**
 * Installs Podman, which has the API of Docker, for the tests of the docker driver, and the
 * programs in its test images.
 */
import { install, mayInstall, onPath } from './debian.mjs';

/** Maps each program to its Debian package. */
const debianPackages = { podman: 'podman', runc: 'runc', busybox: 'busybox-static' };

const missingPrograms = () => Object.keys(debianPackages).filter((program) => !onPath(program));

export const podmanStep = {
  doing: "installing Debian's podman for the tests of the docker driver",
  done: 'podman installed',
  needed() {
    if (missingPrograms().length === 0) return false;
    if (mayInstall()) return true;
    const packages = Object.values(debianPackages).join(' ');
    return `the tests of the docker driver will fail: install ${missingPrograms().join(', ')} (Debian: apt-get install ${packages}).`;
  },
  run: () => install(...missingPrograms().map((program) => debianPackages[program])),
};
