/**
 * A server process reduced to its database. It starts the embedded PostgreSQL on the given
 * directory, reports in one line of JSON, and runs until a signal. The tests of the embedded
 * PostgreSQL run it as a child process.
 */
import { systemClock } from '../../../src/base/clock.ts';
import { startEmbeddedPostgres } from '../../../src/store/pg/embedded/embedded.ts';
import { EmbeddedPostgresError } from '../../../src/store/pg/embedded/embedded-error.ts';

const [, , dataDir = '', relocateTo] = process.argv;
const log: string[] = [];
const print = (value: object) => process.stdout.write(`${JSON.stringify({ ...value, log })}\n`);

try {
  const { url, application_url, pid, adopted, clusterDir, stop } = await startEmbeddedPostgres({
    dataDir,
    clock: systemClock,
    log: (line) => log.push(line),
    ...(relocateTo === undefined ? {} : { relocateTo }),
  });
  process.once('SIGTERM', () => stop().then(() => process.exit(0)));
  process.once('SIGQUIT', () => process.exit(130));
  print({ url, application_url, pid, adopted, clusterDir });
} catch (error) {
  if (!(error instanceof EmbeddedPostgresError)) throw error;
  print({ refusalCode: error.code, message: error.message, remedy: error.remedy });
}
