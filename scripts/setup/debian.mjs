/** Finds programs that tests need, and installs Debian packages if permitted. */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { runQuietly } from './say.mjs';

export function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Directories of system programs that an ordinary user's PATH omits. */
const systemDirectories = ['/usr/sbin', '/sbin'];

export const onPath = (name) =>
  [...(process.env.PATH ?? '').split(delimiter), ...systemDirectories]
    .map((directory) => join(directory, name))
    .find(isProgram);

export const mayInstall = () => process.getuid?.() === 0 && onPath('apt-get') !== undefined;

export function install(...packages) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const apt = (...args) => runQuietly(`apt-get ${args[0]}`, 'apt-get', args, { env });
  apt('update', '-q');
  apt('install', '-y', '-q', '--no-install-recommends', ...packages);
}
