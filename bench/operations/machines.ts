/**
 * Many machines of the `local` pool at once: the time until all are active, and until all are gone
 * with proof.
 */
import { pause, systemClock } from '../../src/base/clock.ts';
import type { Client } from '../../src/contract/client.ts';
import { secondsOf } from '../harness/measure.ts';

/** Often enough for one machine; for many, polling must stay a small part of the load. */
const lookEveryMs = (count: number) => Math.max(10, 4 * count);

async function allAre(client: Client, ids: Set<string>, status: 'active' | 'released'): Promise<void> {
  for (;;) {
    const { items } = await client.call('allocation-list', { query: { pool: 'local', limit: 100 } });
    if (items.filter((each) => ids.has(each.allocation_id) && each.status === status).length === ids.size) return;
    await pause(systemClock, lookEveryMs(ids.size));
  }
}

export interface Round {
  active: number;
  released: number;
}

export async function upAndDown(client: Client, count: number): Promise<Round> {
  const ids = new Set<string>();
  const active = await secondsOf(async () => {
    const requests = Array.from({ length: count }, () => client.call('allocation-create', { body: { pool: 'local' } }));
    for (const { allocation } of await Promise.all(requests)) ids.add(allocation.allocation_id);
    await allAre(client, ids, 'active');
  });
  const released = await secondsOf(async () => {
    await Promise.all([...ids].map((id) => client.call('allocation-release', { params: { id } })));
    await allAre(client, ids, 'released');
  });
  return { active, released };
}
