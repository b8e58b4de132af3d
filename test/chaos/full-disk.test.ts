/** The disk of the database is full: the server is unready, says why, and recovers by itself. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { postgresIn } from '../support/postgres-pair.ts';
import { spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);

/** Mounts a small disk in memory. Returns undefined where this process may not mount. */
async function mountSmallDisk(): Promise<string | undefined> {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-small-disk-'));
  const isMounted = await run('mount', ['-t', 'tmpfs', '-o', 'size=300m,mode=711', 'none', directory]).then(
    () => true,
    () => false,
  );
  onTestFinished(async () => {
    if (isMounted) await run('umount', [directory]);
    await rm(directory, { recursive: true, force: true });
  });
  return isMounted ? directory : undefined;
}

const readReadiness = async (url: string) => {
  const reply = await fetch(`${url}/readyz`);
  const { checks } = (await reply.json()) as { checks: { database: { state: string; detail: string | null } } };
  return { status: reply.status, ...checks.database };
};

test('a full disk makes the server unready until there is space again', async () => {
  const directory = await mountSmallDisk();
  if (directory === undefined) {
    process.stderr.write('not tested with a full disk: this process may not mount\n');
    expect(process.env.CI, 'CI must be able to mount').not.toBe('true');
    return;
  }
  const database = await postgresIn(directory);
  const server = await spawnServer({ database_url: database.url });
  try {
    const waitForState = (state: string) =>
      until(`the state ${state}`, async () => {
        const readiness = await readReadiness(server.url);
        return readiness.state === state ? readiness : undefined;
      });
    await waitForState('ok');
    const filler = join(directory, 'filler');
    await expect(run('dd', ['if=/dev/zero', `of=${filler}`, 'bs=1M'])).rejects.toThrow('No space left');
    expect(await waitForState('disk_full')).toMatchObject({ status: 503, detail: 'the disk of the database is full' });
    await rm(filler);
    expect(await waitForState('ok')).toMatchObject({ status: 200 });
  } finally {
    await server.stop();
  }
});
