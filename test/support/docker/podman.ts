/** Podman behind its Docker-compatible socket. Its containers keep running while it is stopped. */
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type StartEngine, startEngine } from './engine.ts';

/** Settings that Podman needs to run inside a container. */
export const podmanSettings = `[engine]
runtime="runc"
cgroup_manager="cgroupfs"
events_logger="file"
[containers]
default_ulimits=["nofile=1024:1024","nproc=1024:1024"]
`;

export const startPodman: StartEngine = ({ registry } = {}) =>
  startEngine({
    name: 'podman',
    launch(directory, socket) {
      const conf = join(directory, 'containers.conf');
      const registries = join(directory, 'registries.conf');
      writeFileSync(conf, podmanSettings);
      writeFileSync(registries, registry ? `[[registry]]\nlocation = "${registry}"\ninsecure = true\n` : '');
      const places = ['--root', join(directory, 'root'), '--runroot', join(directory, 'run')];
      return spawn('podman', [...places, 'system', 'service', '--time=0', `unix://${socket}`], {
        env: { ...process.env, CONTAINERS_CONF: conf, CONTAINERS_REGISTRIES_CONF: registries },
        stdio: ['ignore', 'ignore', 'pipe'],
      });
    },
  });
