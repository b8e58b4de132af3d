/**
 * Finds the server of a URL with several servers that a new connection should use. All servers are
 * inspected at once, so that an unreachable server delays nothing.
 */
import pg from 'pg';
import { pause, systemClock } from '../../../base/clock.ts';
import type { DatabaseUrl, SessionTarget } from '../../../base/network/database-url.ts';
import { isUnavailableCode } from './unavailable-codes.ts';

export interface FoundServer {
  url: string;
  host: string;
  port: number;
}

type Unfit = 'read-only' | 'standby' | 'unreachable';
type Inspection = { server: FoundServer; fault: null } | { server: FoundServer; fault: Unfit; error?: Error };

const answerTimeoutMs = 4_000;
/**
 * If several servers qualify, every process should choose the same one, so an earlier server gets
 * this much longer to answer than a later one.
 */
const preferenceMs = 500;

const faultTexts: Record<Unfit, string> = {
  'read-only': 'is read-only',
  standby: 'is a standby',
  unreachable: 'does not answer',
};

const sessionState = `
  select current_setting('transaction_read_only') = 'on' as read_only,
         pg_is_in_recovery() as in_recovery`;

async function inspect(config: pg.ClientConfig, url: string, target: SessionTarget): Promise<Inspection> {
  const client = new pg.Client({
    ...config,
    connectionString: url,
    application_name: 'slipway probe',
    connectionTimeoutMillis: answerTimeoutMs,
    query_timeout: answerTimeoutMs,
  });
  client.on('error', () => {});
  const server = { url, host: client.host, port: client.port };
  try {
    await client.connect();
    if (target === 'any') return { server, fault: null };
    const { rows } = await client.query<{ read_only: boolean; in_recovery: boolean }>(sessionState);
    if (rows[0]?.in_recovery) return { server, fault: 'standby' };
    return { server, fault: target === 'read-write' && rows[0]?.read_only ? 'read-only' : null };
  } catch (error) {
    return { server, fault: 'unreachable', error: error instanceof Error ? error : new Error(String(error)) };
  } finally {
    client.end().catch(() => {});
  }
}

/** The server answered, and will answer the same again: a wrong password or a missing database. */
const isPermanent = (error: Error | undefined): boolean =>
  error instanceof pg.DatabaseError && !isUnavailableCode(error.code);

/** The code ECONNREFUSED makes callers retry, as for a server that is away. */
function noServerError(target: SessionTarget, inspections: Inspection[]): Error {
  const permanent = inspections.find((each) => each.fault === 'unreachable' && isPermanent(each.error));
  if (permanent?.fault === 'unreachable' && permanent.error) return permanent.error;
  const descriptions = inspections.map(
    ({ server, fault }) => `${server.host}:${server.port} ${fault && faultTexts[fault]}`,
  );
  // An error that PostgreSQL sent says more than a failed connection.
  const errors = inspections.flatMap((one) => (one.fault === 'unreachable' && one.error ? [one.error] : []));
  const cause = errors.find((error) => error instanceof pg.DatabaseError);
  return Object.assign(new Error(`no ${target} server: ${descriptions.join(', ')}`, { cause }), {
    code: 'ECONNREFUSED',
  });
}

/** Returns the first server that qualifies. The URL `preferred` wins if its server qualifies. */
export async function findServer(
  config: pg.ClientConfig,
  { urls, target }: DatabaseUrl,
  preferred?: string,
): Promise<FoundServer> {
  const ordered = urls.toSorted((a, b) => Number(b === preferred) - Number(a === preferred));
  const searches = ordered.map((url) => inspect(config, url, target));
  const preference = new AbortController();
  const someFit = searches.map((search) =>
    search.then(({ fault }) => {
      if (fault !== null) throw new Error(fault);
    }),
  );
  const preferenceOver = Promise.any(someFit).then(
    () => pause(systemClock, preferenceMs, preference.signal),
    () => Promise.all(searches),
  );
  for (const search of searches) {
    const answer = await Promise.race([search, preferenceOver.then(() => null)]);
    if (answer?.fault !== null) continue;
    preference.abort();
    return answer.server;
  }
  throw noServerError(target, await Promise.all(searches));
}
