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

type UnknownRecord = Record<string, unknown>;

const recordsOf = (value: unknown): UnknownRecord[] =>
  Array.isArray(value) ? value.filter((each): each is UnknownRecord => typeof each === 'object' && each !== null) : [];
const toText = (value: unknown) => (typeof value === 'string' ? value : '');
const toNumber = (value: unknown) => (typeof value === 'number' && Number.isFinite(value) ? value : null);

function readHost(value: unknown): Diagnostics['host'] {
  const [host] = recordsOf([value]);
  if (!host || toText(host.name) === '') return null;
  const load_average = Array.isArray(host.load_average)
    ? host.load_average.flatMap((each) => toNumber(each) ?? [])
    : [];
  return { name: toText(host.name), uptime_seconds: toNumber(host.uptime_seconds) ?? 0, load_average };
}

/**
 * The attachment with log lines that the agent spooled but never sent. The provider reads it from
 * the machine's disk; each line is a JSON record.
 */
const spoolFile = 'node.log';

const linesOf = (records: UnknownRecord[]): Diagnostics['lines'] =>
  records.map(({ at, stream, line }) => ({ at: toText(at), stream: toText(stream), line: toText(line) }));

function parseSpoolLine(line: string): UnknownRecord[] {
  try {
    return recordsOf([JSON.parse(line)]).filter((record) => typeof record.line === 'string');
  } catch {
    // The first line may be truncated.
    return [];
  }
}

export const readDiagnostics = (data: UnknownRecord): Diagnostics => ({
  host: readHost(data.host),
  processes: recordsOf(data.processes).flatMap(({ pid, state, rss_bytes, command }) => {
    const pidNumber = toNumber(pid);
    return pidNumber === null
      ? []
      : [{ pid: pidNumber, state: toText(state), rss_bytes: toNumber(rss_bytes), command: toText(command) }];
  }),
  boot_stages: recordsOf(data.boot_stages)
    .map(({ name, seconds }) => ({ name: toText(name), seconds: toNumber(seconds) }))
    .filter(({ name }) => name !== ''),
  lines: linesOf([
    ...recordsOf(data.lines),
    ...recordsOf(data.attachments)
      .filter(({ name }) => name === spoolFile)
      .flatMap((each) => toText(each.text).split('\n').flatMap(parseSpoolLine)),
  ]),
  attachments: recordsOf(data.attachments)
    .map((each) => ({ name: toText(each.name), text: toText(each.text) }))
    .filter(({ name }) => name !== '' && name !== spoolFile),
});

const kilo = 1024;
const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** Formats a size for people, for example `12 MiB`. */
export function formatSize(bytes: number): string {
  const step = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log(bytes) / Math.log(kilo)));
  return `${Math.round(bytes / kilo ** step)} ${units[step]}`;
}
