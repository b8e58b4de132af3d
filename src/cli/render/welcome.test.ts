import { expect, test } from 'vitest';
import { welcome } from './welcome.ts';

const server = { url: 'http://127.0.0.1:7070', admin_token_path: '/var/lib/slipway/admin.token' };

test('names the place of the admin token', () => {
  expect(welcome({ ...server, admin_token: 'file' })).toContain('with the token in /var/lib/slipway/admin.token');
  const inEnvironment = welcome({ ...server, admin_token: 'environment' });
  expect(inEnvironment).toContain('with the token in SLIPWAY_ADMIN_TOKEN');
  expect(inEnvironment).not.toContain('/var/lib/slipway');
});

test('names no token if none is accepted, but the command that creates one', () => {
  const text = welcome({ ...server, admin_token: 'revoked' });
  expect(text).toContain('slipway admin reset-token');
  expect(text).not.toContain('with the token in');
});

test('advises to change SLIPWAY_ADMIN_TOKEN, not to reset, if it has the revoked token', () => {
  const text = welcome({ ...server, admin_token: 'environment_revoked' });
  expect(text).toContain('change the variable');
  expect(text).not.toContain('reset-token');
});
