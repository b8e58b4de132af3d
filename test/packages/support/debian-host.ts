/** A minimal Debian in a container, with systemd as its first process. */
import { join } from 'node:path';
import { imageObstacle } from '../../../packaging/build/image.ts';
import { findOutsider } from '../../../scripts/setup/outsiders.mjs';
import { until } from '../../support/until.ts';
import type { PodmanStore } from './podman-store.ts';

const image = 'localhost/debian-root';

/** systemd needs these to give each service mounts and filters of its own. */
const rights = ['--systemd=always', '--cap-add=SYS_ADMIN', '--security-opt=seccomp=unconfined'].concat([
  '--security-opt=apparmor=unconfined',
]);

const debian = findOutsider('debian-root');

/** Returns why this host cannot run the minimal Debian, or null if it can. */
export function debianHostObstacle(): string | null {
  if (process.getuid?.() !== 0) return 'this test needs root';
  return imageObstacle() ?? ('missing' in debian ? debian.missing : null);
}

export interface DebianHost {
  /** Runs a command as root, and resolves to what it printed on either stream. */
  run(...command: string[]): Promise<string>;
  /** Creates a file that only root may read. */
  writeSecret(path: string, text: string): Promise<void>;
}

/** Shares the folder `releases` with the host as /releases. The network is that of this host. */
export async function startDebianHost(store: PodmanStore, releases: string): Promise<DebianHost> {
  if ('missing' in debian) throw new Error(debian.missing);
  await store.podman('import', '--quiet', join(debian.place, 'root.tar.gz'), image);
  const shared = ['--network', 'host', '--volume', `${releases}:/releases:ro`];
  const options = ['--detach', '--name', 'debian', '--env', 'DEBIAN_FRONTEND=noninteractive'];
  await store.podman('run', ...options, ...shared, ...rights, image, '/usr/lib/systemd/systemd');
  const run = (...command: string[]) => store.podman('exec', 'debian', ...command);
  await until('systemd to start', async () => {
    const state = await run('systemctl', 'is-system-running').catch((error: { stdout?: string }) => error.stdout ?? '');
    return /^(running|degraded)$/m.test(state);
  });
  return {
    run,
    async writeSecret(path, text) {
      await run('sh', '-c', 'umask 077 && printf "%s\\n" "$1" > "$0"', path, text);
    },
  };
}
