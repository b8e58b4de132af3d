/**
 * Reads the headers of requests to OpenTelemetry collectors. Their values are credentials, so they
 * come from the environment, which other users cannot see, and no error or log contains them.
 */

export const otlpHeadersVariable = 'SLIPWAY_OTLP_HEADERS';

export type OtlpHeaders = Readonly<Record<string, string>>;

/** The format of OTEL_EXPORTER_OTLP_HEADERS: `name=value,…`, with percent-encoded values. */
function readEntry(entry: string): [string, string] | undefined {
  const at = entry.indexOf('=');
  try {
    const [header] = new Headers([[entry.slice(0, at).trim(), decodeURIComponent(entry.slice(at + 1).trim())]]);
    return at > 0 ? header : undefined;
  } catch {
    return undefined;
  }
}

/** Calls `refuse` with a reason, without the value, if an entry cannot be used. */
export function readOtlpHeaders(given: string | undefined, refuse: (reason: string) => Error): OtlpHeaders {
  const entries = (given ?? '').split(',').filter((entry) => entry.trim() !== '');
  return Object.fromEntries(
    entries.map((entry, index) => {
      const header = readEntry(entry);
      if (!header) throw refuse(`${otlpHeadersVariable}: entry ${index + 1} is not name=value, percent-encoded`);
      return header;
    }),
  );
}
