/** Whether the control plane takes the relay's token. One that it refuses would be refused for ever, and nobody would look for it in a log. */
import { agentRoutes } from '../contract/routes/agent.ts';
import type { Upstream } from './upstream.ts';

const refusals: readonly number[] = [401, 403];
const streamPath = agentRoutes['agent-stream'].path;

const patienceMs = 10_000;

export class TokenRefused extends Error {
  override name = 'TokenRefused';
}

/** Throws where it is refused. A control plane that is away may take it once it is back. */
export async function checkToken(
  upstream: Pick<Upstream, 'open'>,
  token: string,
  patience_ms = patienceMs,
): Promise<void> {
  const status = await new Promise<number | undefined>((resolve) => {
    const request = upstream.open('GET', streamPath, { authorization: `Bearer ${token}` });
    request.on('response', (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on('error', () => resolve(undefined));
    // One that takes the call and says nothing is away as well.
    request.setTimeout(patience_ms, () => request.destroy());
    request.end();
  });
  if (status !== undefined && refusals.includes(status))
    throw new TokenRefused(
      'the control plane refuses this token.\n  A relay needs one of its own: slipway tokens create --name NAME --role relay --pool POOL',
    );
}
