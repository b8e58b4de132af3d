/** Refuses components whose licence is not in `packaging/allowed-licences.json`. */
import type { PackageLicence } from '../../src/base/files/licences.ts';
import { inPackaging, readJson } from './paths.ts';

/** Packages of npm, libraries inside PostgreSQL, and Debian packages of the image. */
type Group = 'packages' | 'libraries' | 'image';

const allowed = readJson<Record<Group, string[]>>(inPackaging('allowed-licences.json'));

/** An SPDX expression: every part of AND must be allowed, and one part of OR. */
const isAllowed = (licence: string, names: string[]): boolean =>
  names.includes(licence) ||
  licence
    .replaceAll(/[()]/g, '')
    .split(' OR ')
    .some((choice) => choice.split(' AND ').every((part) => names.includes(part)));

export function refuseLicences(group: Group, components: PackageLicence[]): void {
  const refused = components.filter(({ licence }) => !isAllowed(licence, allowed[group]));
  if (refused.length === 0) return;
  const list = refused.map(({ name, licence }) => `${name} (${licence})`).join(', ');
  throw new Error(`packaging/allowed-licences.json does not allow the licence of ${list}`);
}
