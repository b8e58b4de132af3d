import { chmod, chown, lstat, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { removeTree } from './remove-tree.ts';

/** Root may write anywhere, so the test runs as an unprivileged user. */
const unprivilegedUid = 65_534;
async function asUnprivilegedUser(work: () => Promise<void>): Promise<void> {
  if (process.geteuid?.() !== 0) return work();
  process.seteuid?.(unprivilegedUid);
  try {
    await work();
  } finally {
    process.seteuid?.(0);
  }
}

it('removes read-only directories as an unprivileged user, and follows no link', async () => {
  const home = await mkdtemp(join(tmpdir(), 'slipway-remove-'));
  if (process.geteuid?.() === 0) await chown(home, unprivilegedUid, unprivilegedUid);
  await asUnprivilegedUser(async () => {
    const outside = join(home, 'outside');
    const tree = join(home, 'tree');
    await mkdir(outside, { mode: 0o500 });
    await mkdir(join(tree, 'a', 'b'), { recursive: true });
    await writeFile(join(home, 'kept'), 'kept');
    await writeFile(join(tree, 'a', 'b', 'c'), 'x', { mode: 0o400 });
    await symlink(outside, join(tree, 'a', 'b', 'directory-link'));
    await symlink(join(home, 'kept'), join(tree, 'a', 'file-link'));
    await chmod(join(tree, 'a', 'b'), 0o500);
    await chmod(join(tree, 'a'), 0o000);
    await expect(rm(tree, { recursive: true })).rejects.toThrow('EACCES');

    await removeTree(tree);

    await expect(lstat(tree)).rejects.toThrow('ENOENT');
    expect(await readFile(join(home, 'kept'), 'utf8')).toBe('kept');
    expect((await lstat(outside)).mode & 0o777).toBe(0o500);
    await removeTree(tree);
  });
  await rm(home, { recursive: true });
});

it.runIf(process.geteuid?.() === 0)('reports the file that could not be removed and the cause', async () => {
  const home = await mkdtemp(join(tmpdir(), 'slipway-remove-'));
  await chown(home, unprivilegedUid, unprivilegedUid);
  const tree = join(home, 'tree');
  // In a sticky directory, removing another user's file fails with EPERM, like an immutable file
  // anywhere.
  await mkdir(join(tree, 'sticky'), { recursive: true });
  await chmod(join(tree, 'sticky'), 0o1777);
  await chown(tree, unprivilegedUid, unprivilegedUid);
  await writeFile(join(tree, 'sticky', 'fixed'), 'x');
  await asUnprivilegedUser(() => expect(removeTree(tree)).rejects.toThrow(/^EPERM: .*, unlink '.*sticky.fixed'/));
  await rm(home, { recursive: true });
});
