/** Renders settings as rows, named by their path in the file, and facts of the server. Pure. */
import { licencesText } from '../../../../src/lifecycle/findings/licences.ts';

const isGroup = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const textOf = (value: unknown): string =>
  Array.isArray(value)
    ? value.map(textOf).join(', ')
    : typeof value === 'object'
      ? JSON.stringify(value)
      : String(value);

/** Leaves out unset settings. */
export const settingRows = (settings: Record<string, unknown>, path = ''): [string, string][] =>
  Object.entries(settings).flatMap(([name, value]): [string, string][] => {
    if (value === null || value === undefined) return [];
    return isGroup(value) ? settingRows(value, `${path}${name}.`) : [[`${path}${name}`, textOf(value)]];
  });

/** Adds where each setting comes from. */
export const sourcedRows = (settings: Record<string, unknown>, sources: Record<string, string>): [string, string][] =>
  settingRows(settings).map(([name, value]) => [name, sources[name] ? `${value} (${sources[name]})` : value]);

/** Names the source of the settings that have no flag. */
export const whereFrom = (file: unknown): string =>
  typeof file === 'string' ? `from ${file}, otherwise defaults` : 'defaults; no settings file was given';

export const licencesFact = (licences: Parameters<typeof licencesText>[0] & { list: string }): [string, string] => [
  'Licences',
  `${licencesText(licences)}; all in ${licences.list}`,
];
