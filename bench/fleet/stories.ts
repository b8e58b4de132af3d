/**
 * Runs the stories of the fleet benchmark: the servers or their database fail while the fleet sends
 * heartbeats. Each story returns how long its failure or recovery took.
 */
import { join } from 'node:path';
import { pause, systemClock } from '../../src/base/clock.ts';
import { copyAsNextVersion, type NextMigrations } from '../../test/support/next-version.ts';
import type { Figure } from '../harness/measure.ts';
import type { Replica } from '../harness/server-process.ts';
import type { FleetOptions, storyNames } from './options.ts';
import { intervalSeconds, startServer } from './scene.ts';
import type { Store } from './store.ts';

export interface StoryContext {
  directory: string;
  store: Store;
  options: FleetOptions;
  /** The current replicas; a story replaces them. */
  replicas: Replica[];
  progress(message: string): void;
}

/**
 * Each story first waits until every node has sent a heartbeat. Filling the database and starting
 * the server is an ingest gap. Until a node sends its first heartbeat, its stale time counts from
 * the end of that gap.
 */
const settleSeconds = (options: FleetOptions) => Math.max(15, 1.2 * intervalSeconds(options));
const freezeSeconds = 60;
const upSeconds = 20;
const crashes = 3;
const crashEverySeconds = 8;

const measureSeconds = async (work: () => Promise<unknown>): Promise<number> => {
  const startedMs = systemClock.monotonicMs();
  await work();
  return (systemClock.monotonicMs() - startedMs) / 1000;
};

const wait = (duration: number) => pause(systemClock, duration * 1000);

/** Kills the servers and the database, and starts them again. */
async function restart({ store, directory, options, replicas, progress }: StoryContext): Promise<Figure[]> {
  await wait(settleSeconds(options));
  const downtime = await measureSeconds(async () => {
    await Promise.all(replicas.map((replica) => replica.stop('SIGKILL')));
    await store.kill();
    progress('servers and database were killed');
    await store.start();
    for (const index of replicas.keys())
      replicas[index] = await startServer(directory, store, options.rate / replicas.length, `server-${index}`);
  });
  progress(`servers and database are ready again after ${downtime.toFixed(1)} s`);
  return [{ what: 'from the kill until the servers are ready again', value: downtime, unit: 's' }];
}

/** Kills the servers repeatedly, each time before the fleet has recovered. */
async function crashLoop({ store, directory, options, replicas, progress }: StoryContext): Promise<Figure[]> {
  await wait(settleSeconds(options));
  const downtimes: number[] = [];
  for (let crash = 1; crash <= crashes; crash++) {
    const downSeconds = await measureSeconds(async () => {
      await Promise.all(replicas.map((replica) => replica.stop('SIGKILL')));
      for (const index of replicas.keys())
        replicas[index] = await startServer(directory, store, options.rate / replicas.length, `server-${index}`);
    });
    progress(`crash ${crash} of ${crashes}: the servers are ready again after ${downSeconds.toFixed(1)} s`);
    downtimes.push(downSeconds);
    if (crash < crashes) await wait(Math.max(0, crashEverySeconds - downSeconds));
  }
  return [
    { what: 'kills of the servers', value: crashes, unit: '' },
    { what: '… at least this far apart', value: crashEverySeconds, unit: 's' },
    { what: '… until the servers are ready again, max', value: Math.max(...downtimes), unit: 's' },
  ];
}

/** The store stops answering, but no connection breaks. */
async function storeDown({ store, options, progress }: StoryContext): Promise<Figure[]> {
  await wait(settleSeconds(options));
  progress('the database is frozen');
  store.freeze();
  await wait(freezeSeconds);
  store.thaw();
  progress('the database continues');
  return [{ what: 'the database was frozen for', value: freezeSeconds, unit: 's' }];
}

/** Adds columns that the older version does not use, and an index that takes a while to build. */
const changes: NextMigrations = {
  '9001-upgrade.sql': {
    sql: 'alter table heartbeats add column upgraded boolean;\nalter table nodes add column upgraded boolean;\n',
    step: {
      step: 'expand',
      effects: ['heartbeats', 'nodes'].map((table) => ({ table, blocks: 'everything', work: 'catalog' })),
    },
  },
  '9002-upgrade-index.sql': {
    sql: "-- online\ncreate index concurrently if not exists nodes_upgraded on nodes (zone, name) where status <> 'retired';\n",
    step: { step: 'expand', effects: [{ table: 'nodes', blocks: 'nothing', work: 'index' }] },
  },
};

/** Replaces one replica after the other with a newer version, then kills one of the new ones. */
async function rolling({ store, directory, options, replicas, progress }: StoryContext): Promise<Figure[]> {
  const newer = join(directory, 'newer');
  await copyAsNextVersion(newer, changes);
  const figures: Figure[] = [];
  for (const index of [0, 1]) {
    await wait(settleSeconds(options));
    const former = replicas[index];
    if (!former) throw new Error(`there is no replica ${index}`);
    let next: Replica | undefined;
    const starting = await measureSeconds(async () => {
      next = await startServer(directory, store, options.rate / replicas.length, `newer-${index}`, newer);
    });
    if (next) replicas[index] = next;
    const stopping = await measureSeconds(() => former.stop());
    progress(`replica ${index} replaced: the newer one was ready after ${starting.toFixed(1)} s`);
    figures.push(
      { what: `start of newer replica ${index + 1}, including its migrations`, value: starting, unit: 's' },
      { what: '… stop of the older replica', value: stopping, unit: 's' },
    );
  }
  await wait(upSeconds);
  const killedMs = systemClock.nowMs();
  const victim = replicas.pop();
  await victim?.stop('SIGKILL');
  progress('one of the newer replicas was killed');
  const db = store.open();
  let takenOver: { at: Date } | undefined;
  while (!takenOver && systemClock.nowMs() - killedMs < 60_000) {
    await pause(systemClock, 100);
    [takenOver] = await db.query<{ at: Date }>(
      `select at from evidence where kind = 'replica.ended' and at >= to_timestamp($1 / 1000.0) order by at limit 1`,
      [killedMs],
    );
  }
  await db.close();
  const takeoverSeconds = takenOver ? (takenOver.at.getTime() - killedMs) / 1000 : Number.POSITIVE_INFINITY;
  return [
    ...figures,
    { what: 'from the kill of one replica until the other takes over', value: takeoverSeconds, unit: 's', target: 30 },
  ];
}

export const stories: Record<
  (typeof storyNames)[number],
  { replicas: number; run(context: StoryContext): Promise<Figure[]> }
> = {
  restart: { replicas: 1, run: restart },
  'store-down': { replicas: 1, run: storeDown },
  rolling: { replicas: 2, run: rolling },
  'crash-loop': { replicas: 1, run: crashLoop },
};
