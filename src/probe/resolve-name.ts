/**
 * Resolves a name to all its addresses, as this host does: hosts file, search domains, name
 * servers.
 */
import { lookup } from 'node:dns/promises';

export type Resolve = (name: string) => Promise<readonly string[]>;

/**
 * Shares one running lookup between all callers of the same name. A lookup cannot be cancelled and
 * blocks one of few threads, so a name server that does not answer would otherwise take one more
 * thread per probe.
 */
export function oneLookupPerName(resolve: Resolve): Resolve {
  const running = new Map<string, Promise<readonly string[]>>();
  return (name) => {
    const known = running.get(name);
    if (known) return known;
    const fresh = resolve(name).finally(() => running.delete(name));
    running.set(name, fresh);
    return fresh;
  };
}

export const systemResolve: Resolve = oneLookupPerName(async (name) =>
  (await lookup(name, { all: true })).map(({ address }) => address),
);
