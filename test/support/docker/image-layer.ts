/**
 * Builds the single layer of the test image as a tar: busybox, and the libraries that a mounted
 * Node of this host needs.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onPath } from '../../../scripts/setup/debian.mjs';

const applets = ['sh', 'cat', 'echo', 'sleep', 'true', 'ls'];

/** Parses ldd's lines: "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)". */
const librariesOf = (program: string): string[] =>
  [...execFileSync('ldd', [program], { encoding: 'utf8' }).matchAll(/(?:=> |^\s*)(\/\S+)/gm)].map(
    ([, path = '']) => path,
  );

export function imageLayer(): Buffer {
  const root = mkdtempSync(join(tmpdir(), 'slipway-layer-'));
  const busybox = onPath('busybox');
  if (!busybox) throw new Error('busybox is missing (Debian: apt-get install busybox-static)');
  mkdirSync(join(root, 'bin'));
  mkdirSync(join(root, 'tmp'));
  copyFileSync(busybox, join(root, 'bin/busybox'));
  for (const applet of applets) symlinkSync('busybox', join(root, 'bin', applet));
  for (const library of librariesOf(process.execPath)) {
    mkdirSync(join(root, dirname(library)), { recursive: true });
    copyFileSync(library, join(root, library));
  }
  const layer = execFileSync('tar', ['-C', root, '-c', '.'], { maxBuffer: 64 << 20 });
  rmSync(root, { recursive: true });
  return layer;
}
