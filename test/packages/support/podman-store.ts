/** Podman with images, containers and volumes of its own, which `close` deletes. */
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { podmanSettings } from '../../support/docker/podman.ts';

const run = promisify(execFile);

export interface PodmanStore {
  /** Makes any `podman` use this store. */
  env: Record<string, string>;
  /** Resolves to what podman printed on either stream. */
  podman(...args: string[]): Promise<string>;
  /** Loads a compressed image, decompressed by gunzip: Podman 4.3 cannot load it directly. */
  load(file: string): Promise<void>;
  close(): void;
}

export function openPodmanStore(): PodmanStore {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-podman-store-'));
  const inStore = (name: string) => join(directory, name);
  const storage = `[storage]\ndriver="overlay"\ngraphroot="${inStore('root')}"\nrunroot="${inStore('run')}"\n`;
  writeFileSync(inStore('storage.conf'), storage);
  writeFileSync(inStore('containers.conf'), podmanSettings);
  const env = { CONTAINERS_STORAGE_CONF: inStore('storage.conf'), CONTAINERS_CONF: inStore('containers.conf') };
  const options = { env: { ...process.env, ...env }, maxBuffer: 16 << 20 };
  return {
    env,
    async podman(...args) {
      const { stdout, stderr } = await run('podman', args, options);
      return stdout + stderr;
    },
    async load(file) {
      await run('sh', ['-euc', 'gunzip --stdout "$0" | podman load --quiet', file], options);
    },
    close() {
      execFileSync('podman', ['rm', '--all', '--force', '--time', '0'], { ...options, stdio: 'ignore' });
      const mounts = readFileSync('/proc/mounts', 'utf8').split('\n');
      const ownMounts = mounts
        .map((line) => line.split(' ')[1] ?? '')
        .filter((path) => path.startsWith(`${directory}/`));
      for (const path of ownMounts.toReversed()) execFileSync('umount', [path]);
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
