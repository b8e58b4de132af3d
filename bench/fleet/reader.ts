/**
 * Simulates a console user, who makes one read after the other with a short pause between them. The
 * reader runs in a separate thread, so that the work of simulating the fleet does not delay reads.
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
  /**
   * How long first contact lasts: the time until every node has sent its first heartbeat. Only
   * reads that start later count as `afterwards`.
   */
  firstContactMs: number;
}

async function readUntilStopped({ url, token, everyMs, firstContactMs }: ReaderSettings): Promise<void> {
  const client = createClient({ base_url: url, token, addresses: routes, retries: 0 });
  const all: Reads = { overview: [], 'a page of nodes': [], 'one node': [], explain: [] };
  const afterwards: Reads = { overview: [], 'a page of nodes': [], 'one node': [], explain: [] };
  const failed: string[] = [];
  const readerStartedMs = systemClock.monotonicMs();
  let isOver = false;
  parentPort?.once('message', () => {
    isOver = true;
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
  const timeRead = async (name: ReadName) => {
    const startedMs = systemClock.monotonicMs();
    try {
      await reads[name]();
      const tookMs = systemClock.monotonicMs() - startedMs;
      all[name].push(tookMs);
      if (startedMs - readerStartedMs > firstContactMs) afterwards[name].push(tookMs);
    } catch (error) {
      failed.push(error instanceof Error ? error.message : String(error));
    }
  };
  while (!isOver) {
    for (const name of readNames) {
      await timeRead(name);
      await pause(systemClock, everyMs);
    }
  }
  parentPort?.postMessage({ all, afterwards, failed });
  parentPort?.close();
}

/** Response times in milliseconds. */
export interface ReadTimes {
  all: Reads;
  /** The reads after first contact. */
  afterwards: Reads;
  /** The messages of failed reads. */
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

if (parentPort) await readUntilStopped(workerData as ReaderSettings);
