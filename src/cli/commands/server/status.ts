/**
 * `slipway status`: shows the server itself, as the replica that answers sees it. While its
 * database is away, shows what the server can report without it.
 */
import { addresses } from '../../../contract/addresses.generated.ts';
import { createClient, RequestRefused, ServerUnreachable } from '../../../contract/client.ts';
import type { ReplyOf } from '../../../contract/route.ts';
import type { Routes } from '../../../contract/routes.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { isTransient, type Session } from '../../connection/session.ts';
import { notReadyLines, statusLines } from '../../render/supervision/server-status.ts';
import { renderContext } from '../../render/text/hints.ts';
import { Interrupted } from '../../terminal/failure.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

type Readiness = ReplyOf<Routes['readiness-get']>;

/** A server whose database does not answer holds the call. A slow server gets a second call. */
const firstTimeoutSeconds = 10;
const readinessTimeoutSeconds = 15;

const isReadiness = (value: unknown): value is Readiness =>
  typeof value === 'object' && value !== null && 'checks' in value && typeof value.checks === 'object';

/** Needs no database. The client refuses the status 503, with which an unready server answers. */
async function fetchReadiness({ connection, server, clock, signal }: Session): Promise<Readiness | undefined> {
  const client = createClient({ base_url: server, token: connection.token, addresses });
  const timeout = new AbortController();
  const cancel = clock.after(readinessTimeoutSeconds * 1000, () => timeout.abort());
  try {
    const init = { headers: client.headers(), signal: AbortSignal.any([signal, timeout.signal]) };
    const body: unknown = await (await fetch(client.url('readiness-get'), init)).json();
    return isReadiness(body) ? body : undefined;
  } catch {
    if (signal.aborted) throw new Interrupted();
    return undefined;
  } finally {
    cancel();
  }
}

/** Whether the server may be up without its database: it did not answer, or answered 503. */
const isPerhapsUnready = (error: unknown): boolean =>
  error instanceof ServerUnreachable || (error instanceof RequestRefused && error.problem.status === 503);

async function showUnready(session: Session, readiness: Readiness): Promise<void> {
  const { version } = await session.call('health-get', {}, { no_retry: true });
  const { out } = session.terminal;
  if (session.json) printJson(out, { version, readiness });
  else printLines(out, notReadyLines({ version, readiness }, renderContext(session)));
}

/** Returns undefined after it has shown a server that is not ready. */
async function fetchStatus(session: Session) {
  try {
    return await session.call('server-status', {}, { no_retry: true, timeout_seconds: firstTimeoutSeconds });
  } catch (error) {
    if (!isTransient(error)) throw error;
    const readiness = isPerhapsUnready(error) ? await fetchReadiness(session) : undefined;
    if (readiness && Object.values(readiness.checks).some(({ ok }) => !ok)) return showUnready(session, readiness);
    if (error instanceof ServerUnreachable && !readiness) throw error;
    return session.call('server-status', {});
  }
}

export const makeStatus: MakeCommand = (cli) =>
  new SlipwayCommand('status')
    .description(
      'Show the server itself: versions, database, sweeps, disk, certificate, licences of its packages, and its problems. Exits with 1 if it has any, with 3 if it cannot be reached, and with 6 if it answers but is not ready, for example because its database is away.',
    )
    .examples('slipway status', 'slipway status --json | jq .problems')
    .action(
      cli.run(async (session) => {
        const status = await fetchStatus(session);
        if (!status) return 'not_ready';
        const { out } = session.terminal;
        if (session.json) printJson(out, status);
        else printLines(out, statusLines(status, renderContext(session)));
        return status.problems.length > 0 ? 'failed' : undefined;
      }),
    );
