/**
 * Tests that changing the owner of a cluster changes nothing outside it, even if the former owner
 * interferes.
 */
import { spawn } from 'node:child_process';
import { chmodSync, chownSync, linkSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { endServers, isRoot, newDirectory } from '../../../../test/support/run/embedded-servers.ts';
import { until } from '../../../../test/support/until.ts';
import { EmbeddedPostgresError } from './embedded-error.ts';
import { takeOver } from './take-over.ts';

afterEach(endServers);

const nobody = { name: 'nobody', uid: 65_534, gid: 65_534 };
const slipway = { name: 'slipway', uid: 12_345, gid: 12_345 };

async function createFiles() {
  const place = await newDirectory(0o755);
  const [outside, cluster] = [join(place, 'outside'), join(place, 'cluster')];
  for (const directory of [outside, cluster, join(cluster, 'base')]) mkdirSync(directory);
  writeFileSync(join(outside, 'secret'), 'x', { mode: 0o600 });
  writeFileSync(join(cluster, 'base', 'secret'), 'x', { mode: 0o600 });
  for (const owned of ['', 'base', 'base/secret']) chownSync(join(cluster, owned), nobody.uid, nobody.gid);
  return { place, outside, cluster, ownerOf: (path: string) => statSync(join(place, path)).uid };
}

if (isRoot) {
  test('changes the owner of every entry, but not of link targets outside', async () => {
    const { outside, cluster, ownerOf } = await createFiles();
    symlinkSync(outside, join(cluster, 'pg_tblspc'));
    symlinkSync(join(outside, 'secret'), join(cluster, 'base', 'link'));
    takeOver(cluster, nobody, slipway);
    for (const own of ['cluster', 'cluster/base', 'cluster/base/secret']) expect(ownerOf(own)).toBe(slipway.uid);
    for (const foreign of ['outside', 'outside/secret']) expect(ownerOf(foreign)).toBe(0);
    // The start after an interrupted one repeats the takeover.
    takeOver(cluster, nobody, slipway);
    expect(ownerOf('cluster')).toBe(slipway.uid);
  });

  test("refuses a hard link to another account's file", async () => {
    const { outside, cluster, ownerOf } = await createFiles();
    linkSync(join(outside, 'secret'), join(cluster, 'base', 'stolen'));
    expect(() => takeOver(cluster, nobody, slipway)).toThrow(EmbeddedPostgresError);
    expect(ownerOf('outside/secret')).toBe(0);
    expect(ownerOf('cluster')).toBe(nobody.uid);
  });

  test('changes nothing outside while a directory is swapped for a link continuously', async () => {
    const { place, outside, cluster, ownerOf } = await createFiles();
    const link = join(place, 'link');
    symlinkSync(outside, link);
    chmodSync(cluster, 0o777);
    const swap = `
      const { renameSync } = require('node:fs');
      const [base, aside, link] = process.argv.slice(1);
      process.stdout.write('swapping');
      for (;;) {
        renameSync(base, aside); renameSync(link, base);
        renameSync(base, link); renameSync(aside, base);
      }`;
    const names = [join(cluster, 'base'), join(place, 'aside'), link];
    const swapper = spawn(process.execPath, ['-e', swap, ...names], { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      let isSwapping = false;
      swapper.stdout.once('data', () => {
        isSwapping = true;
      });
      await until('the directory to be swapped', () => isSwapping);
      for (let times = 0; times < 3_000; times++) takeOver(cluster, nobody, slipway);
      for (const foreign of ['outside', 'outside/secret']) expect(ownerOf(foreign)).toBe(0);
    } finally {
      swapper.kill('SIGKILL');
    }
  });
}
