/**
 * The released versions, and how long they stay supported. Every release adds its line, and the
 * policy is in docs/how-to/upgrade.md.
 */

export interface Release {
  version: string;
  /** The newest schema version that it knows. */
  schema: number;
  /**
   * Schema objects that this release no longer uses, written as in `MigrationStep.breaks`. A
   * contract step may break only those that every release inside the window lists here.
   */
  can_lose: readonly string[];
}

/** Oldest first. */
export const releases: readonly Release[] = [{ version: '0.1.0', schema: 57, can_lose: [] }];

/** Servers and agents of this many earlier MINORs still work beside this version. */
export const windowMinors = 2;

interface Numbers {
  major: number;
  minor: number;
}

function parseVersion(version: string): Numbers | undefined {
  const [, major, minor] = /^(\d+)\.(\d+)\./.exec(version) ?? [];
  return major === undefined || minor === undefined ? undefined : { major: Number(major), minor: Number(minor) };
}

/** Whether `version` is more than two MINORs older than `present`, or of an earlier MAJOR. */
export function isBeforeWindow(version: string, present: string): boolean {
  const [given, current] = [parseVersion(version), parseVersion(present)];
  if (!given || !current) return false;
  return given.major < current.major || (given.major === current.major && given.minor < current.minor - windowMinors);
}

/** Releases of the newest two MINORs. They must run on the schema of the version after them. */
export function releasesInWindow(all: readonly Release[] = releases): readonly Release[] {
  const newest = parseVersion(all.at(-1)?.version ?? '');
  return all.filter(({ version }) => {
    const own = parseVersion(version);
    return own?.major === newest?.major && (newest?.minor ?? 0) - (own?.minor ?? 0) < windowMinors;
  });
}
