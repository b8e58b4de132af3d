/**
 * A PostgreSQL for one scenario. A test can freeze its processes, or stop and restart it.
 */
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { startEmbeddedPostgres } from '../../../src/store/pg/embedded/embedded.ts';
import { choosePlacement } from '../../../src/store/pg/embedded/placement.ts';
import { isProcessAlive, stopPostmaster } from '../../../src/store/pg/embedded/postmaster.ts';
import { signalPostgres, startPostgres } from '../../support/postgres-process.ts';
import { until } from '../../support/until.ts';

export interface OwnPostgres {
  url: string;
  /** Queries hang, but no connection breaks. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Every connection breaks, and new ones are refused. */
  stop(): Promise<void>;
  startAgain(): Promise<void>;
  end(): Promise<void>;
}

export async function ownPostgres(): Promise<OwnPostgres> {
  const dataDir = await mkdtemp(join(tmpdir(), 'slipway-own-postgres-'));
  // When the tests run as root, PostgreSQL runs as another user, which must enter the directory.
  await chmod(dataDir, 0o711);
  // The default settings of the product, under which acknowledged writes survive a crash.
  const settings = {};
  const first = await startEmbeddedPostgres({ dataDir, clock: systemClock, settings });
  const placement = choosePlacement(dataDir, () => {});
  const port = Number(new URL(first.url).port);
  let { pid } = first;

  const signal = (name: NodeJS.Signals) => signalPostgres(pid, name);
  const stopForGood = async () => {
    if (isProcessAlive(pid)) {
      await signal('SIGCONT');
      await stopPostmaster(pid, systemClock);
    }
    await rm(placement.clusterDir, { recursive: true, force: true });
    await rm(dataDir, { recursive: true, force: true });
  };
  let ending: Promise<void> | undefined;
  const end = () => (ending ??= stopForGood());
  // A test that times out never reaches its own clean-up, and the database must not outlive it.
  onTestFinished(end);

  return {
    url: first.url,
    freeze: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT'),
    async stop() {
      process.kill(pid, 'SIGQUIT');
      await until('the database to stop', () => !isProcessAlive(pid));
    },
    async startAgain() {
      pid = await startPostgres(placement, port, settings);
    },
    end,
  };
}
