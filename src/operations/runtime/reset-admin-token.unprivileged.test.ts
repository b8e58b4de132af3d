/** Runs as a plain user, because root may replace the files of every account. */
import { expect, it } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { becomePlainUser } from '../../../test/support/run/plain-user.ts';
import { systemClock } from '../../base/clock.ts';
import { openDatabase } from '../../store/pg/database.ts';
import { resetAdminToken } from './reset-admin-token.ts';

becomePlainUser();

it('leaves the file to the account that owns its directory', async () => {
  const database = await testDatabase();
  const db = openDatabase({ url: database.url });
  try {
    // Root owns this directory on every host.
    const done = await resetAdminToken(db, systemClock, { data_dir: '/', is_embedded: true });
    expect(done).toMatchObject({ path: '/admin.token', obstacle: 'other_account', revoked: [] });
  } finally {
    await db.close();
    await database.drop();
  }
});
