/**
 * Stories: failures of the servers and their store while the fleet beats. Each returns the
 * moments of its events, in seconds.
 */
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pause, systemClock } from '../../src/base/clock.ts';
import type { Figure } from '../harness/measure.ts';
import { type Replica, root } from '../harness/server-process.ts';
import type { FleetOptions, storyNames } from './options.ts';
import { intervalSeconds, startServer } from './scene.ts';
import type { Store } from './store.ts';

export interface Stage {
  directory: string;
  store: Store;
  options: FleetOptions;
  /** The current replicas; a story replaces them. */
  replicas: Replica[];
  progress(what: string): void;
}

/** Waits until every node has beaten, so that the gap of filling the store excuses no node. */
const settleSeconds = (options: FleetOptions) => Math.max(15, 1.2 * intervalSeconds(options));
const downSeconds = 60;
const upSeconds = 20;
const crashes = 3;
const crashEverySeconds = 8;

const seconds = async (work: () => Promise<unknown>): Promise<number> => {
  const startedMs = systemClock.monotonicMs();
  await work();
  return (systemClock.monotonicMs() - startedMs) / 1000;
};

const rest = (howLong: number) => pause(systemClock, howLong * 1000);

/** Kills servers and database at once. */
async function restart({ store, directory, options, replicas, progress }: Stage): Promise<Figure[]> {
  await rest(settleSeconds(options));
  const away = await seconds(async () => {
    await Promise.all(replicas.map((replica) => replica.stop('SIGKILL')));
    await store.kill();
    progress('killed: servers and database');
    await store.start();
    for (const place of replicas.keys())
      replicas[place] = await startServer(directory, store, options.rate, `server-${place}`);
  });
  progress(`back after ${away.toFixed(1)} s`);
  return [{ what: 'everything killed, until it serves again', value: away, unit: 's' }];
}

/** Kills the servers repeatedly, each time before the fleet has recovered. */
async function crashLoop({ store, directory, options, replicas, progress }: Stage): Promise<Figure[]> {
  await rest(settleSeconds(options));
  const away: number[] = [];
  for (let crash = 1; crash <= crashes; crash++) {
    const awaySeconds = await seconds(async () => {
      await Promise.all(replicas.map((replica) => replica.stop('SIGKILL')));
      for (const place of replicas.keys())
        replicas[place] = await startServer(directory, store, options.rate, `server-${place}`);
    });
    progress(`killed and back after ${awaySeconds.toFixed(1)} s, ${crash} of ${crashes}`);
    away.push(awaySeconds);
    if (crash < crashes) await rest(Math.max(0, crashEverySeconds - awaySeconds));
  }
  return [
    { what: 'times that the servers were killed', value: crashes, unit: '' },
    { what: '… at least so long after one another', value: crashEverySeconds, unit: 's' },
    { what: '… until it serves again, longest', value: Math.max(...away), unit: 's' },
  ];
}

/** The store stops answering, but no connection breaks. */
async function storeDown({ store, options, progress }: Stage): Promise<Figure[]> {
  await rest(settleSeconds(options));
  progress('the store stands still');
  store.freeze();
  await rest(downSeconds);
  store.thaw();
  progress('the store goes on');
  return [{ what: 'the store stood still for', value: downSeconds, unit: 's' }];
}

/** A column that the older version does not know, and an index that takes a while. */
const changes = {
  '0900-upgrade.sql':
    'alter table heartbeats add column upgraded boolean;\nalter table nodes add column upgraded boolean;\n',
  '0901-upgrade-index.sql':
    "-- online\ncreate index concurrently if not exists nodes_upgraded on nodes (zone, name) where status <> 'retired';\n",
};

/** A copy of this version with two more migrations. */
async function newerVersion(directory: string): Promise<string> {
  const here = join(directory, 'newer');
  await mkdir(here);
  for (const name of ['src', 'bin']) await cp(join(root, name), join(here, name), { recursive: true });
  await cp(join(root, 'package.json'), join(here, 'package.json'));
  for (const name of ['node_modules', 'dist']) await symlink(join(root, name), join(here, name));
  for (const [name, sql] of Object.entries(changes)) await writeFile(join(here, 'src/store/migrations', name), sql);
  return here;
}

/** Replaces one replica after the other with a newer version, then kills one of the new ones. */
async function rolling({ store, directory, options, replicas, progress }: Stage): Promise<Figure[]> {
  const newer = await newerVersion(directory);
  const figures: Figure[] = [];
  for (const place of [0, 1]) {
    await rest(settleSeconds(options));
    const former = replicas[place];
    if (!former) throw new Error('there is no such replica');
    let next: Replica | undefined;
    const starting = await seconds(async () => {
      next = await startServer(directory, store, options.rate, `newer-${place}`, newer);
    });
    if (next) replicas[place] = next;
    const stopping = await seconds(() => former.stop());
    progress(`replica ${place} replaced: the newer one was ready after ${starting.toFixed(1)} s`);
    figures.push(
      { what: `newer version ${place + 1} ready, with its schema`, value: starting, unit: 's' },
      { what: '… the older one stopped', value: stopping, unit: 's' },
    );
  }
  await rest(upSeconds);
  const killedMs = systemClock.nowMs();
  const victim = replicas.pop();
  await victim?.stop('SIGKILL');
  progress('one of the newer ones killed');
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
  const late = takenOver ? (takenOver.at.getTime() - killedMs) / 1000 : Number.POSITIVE_INFINITY;
  return [...figures, { what: 'one killed, until the other takes over', value: late, unit: 's', target: 30 }];
}

export const stories: Record<(typeof storyNames)[number], { replicas: number; run(stage: Stage): Promise<Figure[]> }> =
  {
    restart: { replicas: 1, run: restart },
    'store-down': { replicas: 1, run: storeDown },
    rolling: { replicas: 2, run: rolling },
    'crash-loop': { replicas: 1, run: crashLoop },
  };
