/** The paths and the version that every artefact uses. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
export const inPackaging = (path: string) => join(root, 'packaging', path);

export const readJson = <T>(path: string): T => JSON.parse(readFileSync(path, 'utf8')) as T;

export interface Manifest {
  name: string;
  version: string;
  description: string;
  license: string;
  engines: { node: string };
  optionalDependencies: Record<string, string>;
}

export const manifest = readJson<Manifest>(join(root, 'package.json'));
