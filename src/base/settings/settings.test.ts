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
