/**
 * Measures the cost of sealing evidence: rows per second at full speed, CPU time of the server
 * process, the share of a core at the given write rate, and the cost of writing while sealing.
 */
import { loadavg } from 'node:os';
import { now, systemClock } from '../../src/base/clock.ts';
import { recordEvidence } from '../../src/store/evidence/evidence.ts';
import { createSealer } from '../../src/store/integrity/sealer.ts';
import type { Database } from '../../src/store/pg/database.ts';
import { memoryKeyRing } from '../../test/support/key-ring.ts';
import { startBenchServer } from '../harness/bench-database.ts';
import { type Figure, median, report, secondsOf } from '../harness/measure.ts';
import { common, readOptions } from '../harness/options.ts';

const options = readOptions(import.meta.url, {
  takes: 'about a minute; with --quick some seconds',
  options: common,
});
const { quick, rounds } = options;
const facts = quick ? 5_000 : 20_000;
const together = 100;
/** The write rate of a large fleet. */
const busyFactsPerSecond = 1_000;

const write = async (db: Database, count: number) => {
  for (let from = 0; from < count; from += together)
    await recordEvidence(
      db,
      Array.from({ length: together }, (_, i) => ({
        at: now(systemClock),
        layer: 'rule' as const,
        kind: 'node.explained' as const,
        summary: 'starting → ready: it sends heartbeats and its start-up time is over',
        data: { from: 'starting', to: 'ready', waited_seconds: 12, note: 'x'.repeat(80) },
        node_id: `node_${from + i}` as never,
      })),
    );
};

const figures: Figure[] = [];
const loadBefore = loadavg();
const server = await startBenchServer(1);
try {
  const db = await server.database('seal');
  const sealer = createSealer({ db, key_ring: memoryKeyRing(), installation: { installation_id: 'bench' } });
  const sealAll = async () => {
    while ((await sealer.sealBatch(now(systemClock))).more);
  };
  const written: number[] = [];
  const sealed: number[] = [];
  const processor: number[] = [];
  const alongside: number[] = [];
  await write(db, together);
  await sealAll();
  for (let round = 0; round < rounds; round++) {
    written.push(facts / (await secondsOf(() => write(db, facts))));
    const before = process.cpuUsage();
    sealed.push(facts / (await secondsOf(sealAll)));
    const { user, system } = process.cpuUsage(before);
    processor.push((user + system) / facts);
    // One transaction per second, like the sweep, while others write.
    let isWriting = true;
    const seals = (async () => {
      while (isWriting) {
        const took = await secondsOf(() => sealer.sealBatch(now(systemClock)));
        await new Promise<void>((resolve) => systemClock.after(took * 3_000, resolve));
      }
    })();
    alongside.push(facts / (await secondsOf(() => write(db, facts))));
    isWriting = false;
    await seals;
    await sealAll();
  }
  figures.push(
    { what: 'facts written a second, nobody seals', value: median(written), unit: '', samples: written },
    { what: 'facts written a second, a backlog is sealed', value: median(alongside), unit: '', samples: alongside },
    { what: 'facts sealed a second at full speed', value: median(sealed), unit: '', samples: sealed },
    { what: "the server's processor time for a sealed fact", value: median(processor), unit: 'µs', samples: processor },
    {
      what: `share of a core at ${busyFactsPerSecond} facts a second`,
      value: (100 * median(processor) * busyFactsPerSecond) / 1e6,
      unit: '%',
      target: 5,
    },
  );
} finally {
  await server.stop();
}
report(options, 'seal', figures, loadBefore, { medianOf: String(rounds), jsonToo: true });
