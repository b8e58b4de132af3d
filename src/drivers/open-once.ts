/**
 * Shares clients and list calls. A place is a container engine, a region or a subscription.
 */
import { createSharedScan } from '../base/batching/shared-scan.ts';
import type { Clock } from '../base/clock.ts';

/** Opens one client per place. If opening fails, the next call tries again. */
export function openOnce<Client>(open: (place: string) => Promise<Client>): (place: string) => Promise<Client> {
  const clients = new Map<string, Promise<Client>>();
  return (place) => {
    const client = clients.get(place) ?? open(place);
    clients.set(place, client);
    client.catch(() => clients.delete(place));
    return client;
  };
}

/** Lets concurrent inspections of one installation share one list call per place. */
export function createSharedLists<Client, Row>(
  clock: Clock,
  placeOf: (client: Client) => string,
  list: (client: Client, installation_id: string) => Promise<Row[]>,
): (client: Client, installation_id: string) => Promise<Row[]> {
  const scans = new Map<string, () => Promise<Row[]>>();
  return (client, installation_id) => {
    const key = `${placeOf(client)} ${installation_id}`;
    const scan = scans.get(key) ?? createSharedScan(clock, () => list(client, installation_id));
    scans.set(key, scan);
    return scan();
  };
}
