/**
 * Runs the user-data of fake instances as real processes. A directory takes the place of the disk
 * and holds only the programs of a small image.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Boots, FakeInstance } from './account.ts';

const programs = ['sh', 'mkdir', 'cat', 'sed', 'sleep', 'chmod'];
/** Absolute paths in the user-data script, redirected into the instance's directory. */
const places = ['/var/lib/slipway', '/opt/slipway', '/etc/systemd', '/run/systemd', '/usr/local/bin', '/snap/bin'];

export interface BootingMachines extends Boots {
  diskOf(instance: FakeInstance): string;
  /** Whether images launched from now on contain Node.js. */
  setHasNode(hasNode: boolean): void;
  /** From now on images have a fake systemd: a `systemctl` that only prints its arguments. */
  addSystemd(): void;
  close(): void;
}

const whereIs = (program: string) => execFileSync('sh', ['-c', `command -v ${program}`], { encoding: 'utf8' }).trim();

export function bootingMachines(): BootingMachines {
  const root = mkdtempSync(join(tmpdir(), 'slipway-ec2-'));
  const processes = new Map<string, ChildProcess>();
  let node = true;
  let systemd = false;

  const diskOf = ({ id }: FakeInstance) => join(root, id);
  const endProcessOf = ({ id }: FakeInstance) => {
    const { pid } = processes.get(id) ?? {};
    processes.delete(id);
    if (pid === undefined) return;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch (error) {
      // The process had exited already.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  };

  return {
    diskOf,
    setHasNode: (hasNode) => {
      node = hasNode;
    },
    addSystemd: () => {
      systemd = true;
    },
    ended: endProcessOf,
    launched(instance) {
      const disk = diskOf(instance);
      const bin = join(disk, 'bin');
      mkdirSync(bin, { recursive: true });
      for (const program of programs) symlinkSync(whereIs(program), join(bin, program));
      if (node) symlinkSync(process.execPath, join(bin, 'node'));
      if (systemd) {
        for (const place of ['/run/systemd/system', '/etc/systemd/system'])
          mkdirSync(join(disk, place), { recursive: true });
        writeFileSync(join(bin, 'systemctl'), '#!/bin/sh\necho "systemctl $*"\n', { mode: 0o755 });
      }
      const script = Buffer.from(instance.fields.get('UserData') ?? '', 'base64').toString('utf8');
      const redirectedScript = places.reduce((text, place) => text.replaceAll(place, join(disk, place)), script);
      const machine = spawn(join(bin, 'sh'), ['-c', redirectedScript], {
        detached: true,
        env: { PATH: bin },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      for (const stream of [machine.stdout, machine.stderr])
        stream.setEncoding('utf8').on('data', (text: string) => {
          instance.console += text;
        });
      processes.set(instance.id, machine);
    },
    close() {
      for (const id of [...processes.keys()]) endProcessOf({ id } as FakeInstance);
      if (existsSync(root)) rmSync(root, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
