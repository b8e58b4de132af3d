/**
 * Checks at startup that the control plane accepts the relay's token. Starting with a refused token
 * would fail forever, visible only in a log.
 */
import { agentRoutes } from '../contract/routes/agent.ts';
import type { Upstream } from './upstream.ts';

const refusals: readonly number[] = [401, 403];
const streamPath = agentRoutes['agent-stream'].path;

const timeoutMs = 10_000;

export class TokenRefused extends Error {
  override name = 'TokenRefused';
}

/**
 * Throws if the token is refused. An unreachable control plane is not an error: it may accept the
 * token once it is back.
 */
export async function checkToken(
  upstream: Pick<Upstream, 'open'>,
  token: string,
  timeout_ms = timeoutMs,
): Promise<void> {
  const status = await new Promise<number | undefined>((resolve) => {
    const request = upstream.open('GET', streamPath, { authorization: `Bearer ${token}` });
    request.on('response', (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on('error', () => resolve(undefined));
    // A server that accepts the connection and never answers counts as unreachable.
    request.setTimeout(timeout_ms, () => request.destroy());
    request.end();
  });
  if (status !== undefined && refusals.includes(status))
    throw new TokenRefused(
      'the control plane refuses this token.\n  A relay needs one of its own: slipway tokens create --name NAME --role relay --pool POOL',
    );
}
