/**
 * Reads collected diagnostics from their fact (kind `evidence.frozen`), for the CLI and the
 * console. The content comes from a machine, so entries with an unexpected shape are dropped.
 */

export interface Diagnostics {
  host: { name: string; uptime_seconds: number; load_average: number[] } | null;
  processes: { pid: number; state: string; rss_bytes: number | null; command: string }[];
  boot_stages: { name: string; seconds: number | null }[];
  lines: { at: string; stream: string; line: string }[];
  /** Texts from the provider, such as the serial console. */
  attachments: { name: string; text: string }[];
}

type Loose = Record<string, unknown>;

const recordsOf = (value: unknown): Loose[] =>
  Array.isArray(value) ? value.filter((each): each is Loose => typeof each === 'object' && each !== null) : [];
const text = (value: unknown) => (typeof value === 'string' ? value : '');
const number = (value: unknown) => (typeof value === 'number' && Number.isFinite(value) ? value : null);

function hostOf(value: unknown): Diagnostics['host'] {
  const [host] = recordsOf([value]);
  if (!host || text(host.name) === '') return null;
  const load_average = Array.isArray(host.load_average) ? host.load_average.flatMap((each) => number(each) ?? []) : [];
  return { name: text(host.name), uptime_seconds: number(host.uptime_seconds) ?? 0, load_average };
}

/**
 * The attachment with log lines that the agent spooled but never sent. The provider reads it from
 * the machine's disk; each line is a JSON record.
 */
const spoolFile = 'node.log';

const linesOf = (records: Loose[]): Diagnostics['lines'] =>
  records.map(({ at, stream, line }) => ({ at: text(at), stream: text(stream), line: text(line) }));

function recordOf(line: string): Loose[] {
  try {
    return recordsOf([JSON.parse(line)]).filter((record) => typeof record.line === 'string');
  } catch {
    // The first line may be truncated.
    return [];
  }
}

export const readDiagnostics = (data: Loose): Diagnostics => ({
  host: hostOf(data.host),
  processes: recordsOf(data.processes).flatMap(({ pid, state, rss_bytes, command }) => {
    const pidNumber = number(pid);
    return pidNumber === null
      ? []
      : [{ pid: pidNumber, state: text(state), rss_bytes: number(rss_bytes), command: text(command) }];
  }),
  boot_stages: recordsOf(data.boot_stages)
    .map(({ name, seconds }) => ({ name: text(name), seconds: number(seconds) }))
    .filter(({ name }) => name !== ''),
  lines: linesOf([
    ...recordsOf(data.lines),
    ...recordsOf(data.attachments)
      .filter(({ name }) => name === spoolFile)
      .flatMap((each) => text(each.text).split('\n').flatMap(recordOf)),
  ]),
  attachments: recordsOf(data.attachments)
    .map((each) => ({ name: text(each.name), text: text(each.text) }))
    .filter(({ name }) => name !== '' && name !== spoolFile),
});

const kilo = 1024;
const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** Formats a size for people, for example `12 MiB`. */
export function sizeWords(bytes: number): string {
  const step = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log(bytes) / Math.log(kilo)));
  return `${Math.round(bytes / kilo ** step)} ${units[step]}`;
}
