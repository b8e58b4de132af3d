/** Writes archives that depend on nothing but the content of their files. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, createWriteStream, lstatSync, lutimesSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { root } from './paths.ts';

/** Without the setting, git refuses to read a clone that belongs to another user. */
function commitSeconds(clone: string): string {
  const log = ['-c', 'safe.directory=*', '-C', clone, 'log', '-1', '--format=%ct'];
  try {
    return execFileSync('git', log, { encoding: 'utf8', stdio: 'pipe' }).trim();
  } catch (error) {
    throw new Error(`git knows no commit in ${clone}; set SOURCE_DATE_EPOCH to the seconds since 1970`, {
      cause: error,
    });
  }
}

/** SOURCE_DATE_EPOCH, or else the date of the commit: the time of every file in an artefact. */
export function sourceDate(environment: NodeJS.ProcessEnv = process.env, clone = root): Date {
  const seconds = environment.SOURCE_DATE_EPOCH ?? commitSeconds(clone);
  if (!/^\d+$/.test(seconds)) throw new Error(`SOURCE_DATE_EPOCH is ${seconds}, which is not a number of seconds`);
  return new Date(Number(seconds) * 1000);
}

/** Gives every file the same time, and the mode that the umask of the builder would change. */
export function normalise(path: string, date: Date): void {
  const status = lstatSync(path);
  if (status.isDirectory()) for (const name of readdirSync(path)) normalise(join(path, name), date);
  if (!status.isSymbolicLink()) chmodSync(path, status.isDirectory() || status.mode & 0o100 ? 0o755 : 0o644);
  lutimesSync(path, date, date);
}

/** Packs a folder under its own name. GNU tar, because BSD tar cannot sort. */
export async function writeTarball(folder: string, file: string, date: Date): Promise<void> {
  normalise(folder, date);
  const tar = spawn(
    'tar',
    [
      ...['--create', '--format=ustar', '--sort=name', '--owner=0', '--group=0', '--numeric-owner'],
      ...[`--directory=${dirname(folder)}`, basename(folder)],
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const ended = once(tar, 'close');
  await pipeline(tar.stdout, createGzip({ level: 6 }), createWriteStream(file));
  const [status] = await ended;
  if (status !== 0) throw new Error(`tar ended with status ${status}`);
}
