/** What tests need of the machine: found on it, or installed from Debian where we may. */
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

/** Where system programs lie that a plain user's PATH leaves out. */
const systemPlaces = ['/usr/sbin', '/sbin'];

export const onPath = (name) =>
  [...(process.env.PATH ?? '').split(delimiter), ...systemPlaces]
    .map((directory) => join(directory, name))
    .find(isProgram);

export const mayInstall = () => process.getuid?.() === 0 && onPath('apt-get') !== undefined;

export function install(...packages) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const apt = (...args) => runQuietly(`apt-get ${args[0]}`, 'apt-get', args, { env });
  apt('update', '-q');
  apt('install', '-y', '-q', '--no-install-recommends', ...packages);
}
