import { expect, test } from 'vitest';
import { systemClock } from '../../../base/clock.ts';
import { newCorrelationId } from '../../../base/ids.ts';
import { EmbeddedPostgresError } from './embedded-error.ts';
import { ensureSoleServer } from './sole-server.ts';

const clock = systemClock;

test('refuses a server on a copy while the other one runs, and names it', async () => {
  const installation_id = newCorrelationId();
  const release = await ensureSoleServer({ installation_id, dataDir: '/data/first', clock });
  const refused = await ensureSoleServer({ installation_id, dataDir: '/data/copy', clock }).catch((error) => error);
  expect(refused).toBeInstanceOf(EmbeddedPostgresError);
  expect(refused.code).toBe('data_directory_copied');
  expect(refused.message).toContain('/data/copy is a copy');
  expect(refused.message).toContain(`process ${process.pid} on /data/first`);
  release();
  (await ensureSoleServer({ installation_id, dataDir: '/data/copy', clock }))();
});

test('accepts servers of different installations', async () => {
  const releases = await Promise.all(
    [1, 2].map(() => ensureSoleServer({ installation_id: newCorrelationId(), dataDir: '/data', clock })),
  );
  for (const release of releases) release();
});
