/**
 * Reloads the settings file of a running server. Flags and variables are only read at the start,
 * and so are the sections of the file that `readAtStart` lists.
 */
import type { Log } from '../base/telemetry/log.ts';
import { readServerFile, type ServerFileSettings } from '../contract/server-file.ts';

type Section = keyof ServerFileSettings;

const reloaded = [
  'runtime_classes',
  'budgets',
  'brake',
  'brake_policy',
  'drift',
  'repeat_failure',
  'boot_shift',
  'orphans',
  'evidence',
  'operators_may',
  'retention',
] as const satisfies Section[];
type Reloaded = (typeof reloaded)[number];
/** Fails to compile if a section is in neither list. */
const readAtStart: Record<Exclude<Section, Reloaded>, true> = { logs: true, limits: true, redact: true };

/** The sections that sweeps and handlers read at each use. */
export type LiveSettings = Pick<ServerFileSettings, Reloaded>;

/** The name of a section in the file. */
const toNameInFile = (section: Section): string => (section === 'brake_policy' ? 'brake' : section);

const toNamesInFile = (sections: readonly Section[]): string[] => [...new Set(sections.map(toNameInFile))];

export interface FileReload {
  path: string | null;
  /** The settings that this server started with. */
  started: ServerFileSettings;
  apply(settings: LiveSettings): void;
  log: Pick<Log, 'info' | 'warn'>;
}

/** Returns a function that reloads. A file with a mistake changes nothing. */
export function createFileReload({ path, started, apply, log }: FileReload): () => Promise<void> {
  let current = started;
  return async () => {
    let next: ServerFileSettings;
    try {
      next = await readServerFile(path);
    } catch (error) {
      log.warn({ error }, 'the settings file cannot be used; the previous settings stay in use');
      return;
    }
    const isChanged = (section: Section) => JSON.stringify(current[section]) !== JSON.stringify(next[section]);
    const changed = toNamesInFile(reloaded.filter(isChanged));
    const needsRestart = toNamesInFile((Object.keys(readAtStart) as (keyof typeof readAtStart)[]).filter(isChanged));
    const { logs, limits, redact } = current;
    current = { ...next, logs, limits, redact };
    apply(current);
    log.info({ changed }, 'reloaded the settings file; flags and variables change with a restart');
    if (needsRestart.length > 0)
      log.warn(
        { needs_restart: needsRestart },
        `changed in the settings file, in use after a restart: ${needsRestart}`,
      );
  };
}
