/**
 * A console user during the run: a few reads per second, in a separate thread, so that the fleet's
 * work does not delay them.
 */
import { parentPort, Worker, workerData } from 'node:worker_threads';
import { pause, systemClock } from '../../src/base/clock.ts';
import { createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';

export const readNames = ['overview', 'a page of nodes', 'one node', 'explain'] as const;
export type ReadName = (typeof readNames)[number];
export type Reads = Record<ReadName, number[]>;

interface ReaderSettings {
  url: string;
  token: string;
  everyMs: number;
  /** After this time, every node has beaten once and first contact is over. */
  metAfterMs: number;
}

async function readOn({ url, token, everyMs, metAfterMs }: ReaderSettings): Promise<void> {
  const client = createClient({ base_url: url, token, addresses: routes, retries: 0 });
  const taken: Reads = { overview: [], 'a page of nodes': [], 'one node': [], explain: [] };
  const afterwards: Reads = { overview: [], 'a page of nodes': [], 'one node': [], explain: [] };
  const failed: string[] = [];
  const beganMs = systemClock.monotonicMs();
  let over = false;
  parentPort?.once('message', () => {
    over = true;
  });
  let cursor: string | undefined;
  let id: string | undefined;
  const reads: Record<ReadName, () => Promise<unknown>> = {
    overview: () => client.call('overview-get', {}),
    async 'a page of nodes'() {
      const page = await client.call('node-list', { query: { limit: 100, ...(cursor && { cursor }) } });
      cursor = page.next_cursor ?? undefined;
      id = page.items[Math.floor(Math.random() * page.items.length)]?.node_id;
    },
    'one node': async () => id && (await client.call('node-get', { params: { id } })),
    explain: async () => id && (await client.call('node-explain', { params: { id } })),
  };
  const timed = async (name: ReadName) => {
    const startedMs = systemClock.monotonicMs();
    try {
      await reads[name]();
      const tookMs = systemClock.monotonicMs() - startedMs;
      taken[name].push(tookMs);
      if (startedMs - beganMs > metAfterMs) afterwards[name].push(tookMs);
    } catch (error) {
      failed.push(error instanceof Error ? error.message : String(error));
    }
  };
  while (!over) {
    for (const name of readNames) {
      await timed(name);
      await pause(systemClock, everyMs);
    }
  }
  parentPort?.postMessage({ taken, afterwards, failed });
  parentPort?.close();
}

/** Milliseconds; `afterwards` is the part after first contact. */
export interface ReadTimes {
  taken: Reads;
  afterwards: Reads;
  failed: string[];
}

export interface Reader {
  end(): Promise<ReadTimes>;
}

export function startReader(settings: ReaderSettings): Reader {
  const worker = new Worker(new URL(import.meta.url), { workerData: settings });
  const reply = new Promise<ReadTimes>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  return {
    end() {
      worker.postMessage('over');
      return reply;
    },
  };
}

if (parentPort) await readOn(workerData as ReaderSettings);
