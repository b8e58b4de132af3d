/** Allocates and releases machines of the `local` pool, and measures how long both take. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pause, systemClock } from '../../src/base/clock.ts';
import { type Client, createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { secondsOf } from '../harness/measure.ts';

/** Polls often for one machine. For many machines, polling must stay a small part of the load. */
const pollMs = (count: number) => Math.max(10, 4 * count);

async function waitUntilAllAre(client: Client, ids: Set<string>, status: 'active' | 'released'): Promise<void> {
  for (;;) {
    const { items } = await client.call('allocation-list', { query: { pool: 'local', limit: 100 } });
    const own = items.filter((each) => ids.has(each.allocation_id));
    const failed = own.find((each) => each.status === 'failed');
    if (failed) throw new Error(`an allocation failed: ${failed.reason}`);
    if (own.filter((each) => each.status === status).length === ids.size) return;
    await pause(systemClock, pollMs(ids.size));
  }
}

/** The seconds until all machines were active, and until all were released with proof. */
export interface RoundTimes {
  active: number;
  released: number;
}

/** Returns the ids of the allocations once all are active. */
export async function allocateMachines(client: Client, count: number): Promise<Set<string>> {
  const requests = Array.from({ length: count }, () => client.call('allocation-create', { body: { pool: 'local' } }));
  const ids = new Set<string>((await Promise.all(requests)).map(({ allocation }) => allocation.allocation_id));
  await waitUntilAllAre(client, ids, 'active');
  return ids;
}

/** Connects as the admin of a server that was not started with npm. */
export async function connectAs(base_url: string, data_dir: string): Promise<Client> {
  const token = (await readFile(join(data_dir, 'admin.token'), 'utf8')).trim();
  return createClient({ base_url, token, addresses: routes });
}

export async function allocateAndRelease(client: Client, count: number): Promise<RoundTimes> {
  let ids = new Set<string>();
  const active = await secondsOf(async () => {
    ids = await allocateMachines(client, count);
  });
  const released = await secondsOf(async () => {
    await Promise.all([...ids].map((id) => client.call('allocation-release', { params: { id } })));
    await waitUntilAllAre(client, ids, 'released');
  });
  return { active, released };
}
