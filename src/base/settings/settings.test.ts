/** How the server reads its settings from the environment. */
import { expect, test } from 'vitest';
import { readSettings, SettingsError } from './settings.ts';

const token = 'four-and-twenty-characters';

test('takes the admin token without the line break that a secret from a file ends with', () => {
  expect(readSettings([], { SLIPWAY_ADMIN_TOKEN: `${token}\n` }).admin_token).toBe(token);
  expect(readSettings([], { SLIPWAY_ADMIN_TOKEN: `${token}\r\n` }).admin_token).toBe(token);
  expect(readSettings([], {}).admin_token).toBeNull();
  expect(() => readSettings([], { SLIPWAY_ADMIN_TOKEN: `short${'\n'.repeat(24)}` })).toThrow(SettingsError);
});

test('accepts a database URL with several servers and refuses an unknown target, without the password', () => {
  const url = 'postgres://me:hidden@a:5432,b:5433/db?target_session_attrs=read-write';
  expect(readSettings(['--database-url', url], {}).database_url).toBe(url);
  const refused = () => readSettings([], { SLIPWAY_DATABASE_URL: url.replace('read-write', 'standby') });
  expect(refused).toThrow('--database-url: target_session_attrs must be any, read-write, primary, not standby');
  expect(refused).not.toThrow(/hidden/);
});
