/** Allocates and releases machines of the `local` pool, and measures how long both take. */
import { pause, systemClock } from '../../src/base/clock.ts';
import type { Client } from '../../src/contract/client.ts';
import { secondsOf } from '../harness/measure.ts';

/** Polls often for one machine. For many machines, polling must stay a small part of the load. */
const pollMs = (count: number) => Math.max(10, 4 * count);

async function waitUntilAllAre(client: Client, ids: Set<string>, status: 'active' | 'released'): Promise<void> {
  for (;;) {
    const { items } = await client.call('allocation-list', { query: { pool: 'local', limit: 100 } });
    if (items.filter((each) => ids.has(each.allocation_id) && each.status === status).length === ids.size) return;
    await pause(systemClock, pollMs(ids.size));
  }
}

/** The seconds until all machines were active, and until all were released with proof. */
export interface RoundTimes {
  active: number;
  released: number;
}

export async function allocateAndRelease(client: Client, count: number): Promise<RoundTimes> {
  const ids = new Set<string>();
  const active = await secondsOf(async () => {
    const requests = Array.from({ length: count }, () => client.call('allocation-create', { body: { pool: 'local' } }));
    for (const { allocation } of await Promise.all(requests)) ids.add(allocation.allocation_id);
    await waitUntilAllAre(client, ids, 'active');
  });
  const released = await secondsOf(async () => {
    await Promise.all([...ids].map((id) => client.call('allocation-release', { params: { id } })));
    await waitUntilAllAre(client, ids, 'released');
  });
  return { active, released };
}
