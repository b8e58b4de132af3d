/** Somebody who looks at the console meanwhile: a few reads a second, in a thread of its own, so that the fleet's work delays none. */
import { parentPort, Worker, workerData } from 'node:worker_threads';
import { pause, systemClock } from '../../src/base/clock.ts';
import { createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';

export const readNames = ['overview', 'a page of nodes', 'one node', 'explain'] as const;
export type ReadName = (typeof readNames)[number];
export type Reads = Record<ReadName, number[]>;

interface Asked {
  url: string;
  token: string;
  everyMs: number;
  /** After so long everybody has been heard once, and what it takes to meet a fleet is over. */
  metAfterMs: number;
}

async function readOn({ url, token, everyMs, metAfterMs }: Asked): Promise<void> {
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

/** Milliseconds; `afterwards` is the part after everybody was met. */
export interface ReadTimes {
  taken: Reads;
  afterwards: Reads;
  failed: string[];
}

export interface Reader {
  end(): Promise<ReadTimes>;
}

export function startReader(asked: Asked): Reader {
  const worker = new Worker(new URL(import.meta.url), { workerData: asked });
  const said = new Promise<ReadTimes>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  return {
    end() {
      worker.postMessage('over');
      return said;
    },
  };
}

if (parentPort) await readOn(workerData as Asked);
