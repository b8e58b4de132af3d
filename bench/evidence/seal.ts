/**
 * Measures the cost of sealing evidence: facts sealed per second at full speed, the CPU time of
 * this process per fact, and the share of a core at the write rate of a large fleet. Also compares
 * the speed of writing with and without sealing at the same time.
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
  duration: 'about a minute; with --quick a few seconds',
  options: common,
});
const { quick, rounds } = options;
const facts = quick ? 5_000 : 20_000;
const factsPerWrite = 100;
/** The write rate of a large fleet. */
const busyFactsPerSecond = 1_000;

const write = async (db: Database, count: number) => {
  for (let from = 0; from < count; from += factsPerWrite)
    await recordEvidence(
      db,
      Array.from({ length: factsPerWrite }, (_, i) => ({
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
  const cpuTimes: number[] = [];
  const writtenWhileSealing: number[] = [];
  await write(db, factsPerWrite);
  await sealAll();
  for (let round = 0; round < rounds; round++) {
    written.push(facts / (await secondsOf(() => write(db, facts))));
    const before = process.cpuUsage();
    sealed.push(facts / (await secondsOf(sealAll)));
    const { user, system } = process.cpuUsage(before);
    cpuTimes.push((user + system) / facts);
    // Seals a quarter of the time, while facts are written.
    let isWriting = true;
    const seals = (async () => {
      while (isWriting) {
        const took = await secondsOf(() => sealer.sealBatch(now(systemClock)));
        await new Promise<void>((resolve) => systemClock.after(took * 3_000, resolve));
      }
    })();
    writtenWhileSealing.push(facts / (await secondsOf(() => write(db, facts))));
    isWriting = false;
    await seals;
    await sealAll();
  }
  figures.push(
    { what: 'facts written per second, without sealing', value: median(written), unit: '', samples: written },
    {
      what: 'facts written per second, while sealing',
      value: median(writtenWhileSealing),
      unit: '',
      samples: writtenWhileSealing,
    },
    { what: 'facts sealed per second, at full speed', value: median(sealed), unit: '', samples: sealed },
    { what: 'CPU time of the sealer, per fact', value: median(cpuTimes), unit: 'µs', samples: cpuTimes },
    {
      what: `share of a core at ${busyFactsPerSecond} facts per second`,
      value: (100 * median(cpuTimes) * busyFactsPerSecond) / 1e6,
      unit: '%',
      target: 5,
    },
  );
} finally {
  await server.stop();
}
report(options, 'seal', figures, loadBefore, { medianOf: String(rounds), jsonToo: true });
