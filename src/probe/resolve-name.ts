/** From a name to all its addresses, as this host sees them: its hosts file, its search domains, its name servers. */
import { lookup } from 'node:dns/promises';

export type Resolve = (name: string) => Promise<readonly string[]>;

/**
 * A lookup cannot be called off, and the process has only a few threads for all of them. A name whose server stays silent
 * would take one more thread with every probe; so all who ask for the same name meanwhile wait for the same lookup.
 */
export function oneLookupPerName(resolve: Resolve): Resolve {
  const underway = new Map<string, Promise<readonly string[]>>();
  return (name) => {
    const known = underway.get(name);
    if (known) return known;
    const fresh = resolve(name).finally(() => underway.delete(name));
    underway.set(name, fresh);
    return fresh;
  };
}

export const systemResolve: Resolve = oneLookupPerName(async (name) =>
  (await lookup(name, { all: true })).map(({ address }) => address),
);
