import { expect, test } from 'vitest';
import { SettingsError } from '../settings/flag-values.ts';
import { readSettings } from '../settings/settings.ts';
import { trustedProxies } from './trusted-proxies.ts';

const publicHost = ['--host', '0.0.0.0', '--behind-proxy'];
const proxiesOf = (...argv: string[]) => readSettings(argv, {}).trusted_proxies;

test('trusts a proxy on the same host without a list', () => {
  expect(proxiesOf('--behind-proxy')).toEqual(['loopback']);
  expect(proxiesOf()).toEqual([]);
});

test('requires a list if the server listens on other addresses than loopback', () => {
  expect(() => proxiesOf(...publicHost)).toThrow(SettingsError);
  expect(() => proxiesOf(...publicHost)).toThrow('--trusted-proxies');
  expect(proxiesOf(...publicHost, '--trusted-proxies', '10.0.0.5, 10.1.0.0/16,fd00::/8')).toEqual([
    '10.0.0.5',
    '10.1.0.0/16',
    'fd00::/8',
  ]);
  expect(readSettings(publicHost, { SLIPWAY_TRUSTED_PROXIES: 'private' }).trusted_proxies).toEqual(['private']);
});

test.for(['everybody', '10.0.0.0/33', '0.0.0.0/0', '::/0', '10.0.0.0/8/8', '10.0.0.1,,10.0.0.2', '1', '10.0.0.0/-1'])(
  'refuses the list %s',
  (list) => {
    expect(() => proxiesOf(...publicHost, '--trusted-proxies', list)).toThrow(SettingsError);
  },
);

test('refuses a list without --behind-proxy', () => {
  expect(() => proxiesOf('--trusted-proxies', 'loopback')).toThrow('--behind-proxy');
});

test('matches names, addresses and networks in both IP families', () => {
  const { trusts } = trustedProxies(['loopback', 'private', '2001:db8::/32', '192.0.2.7']);
  for (const address of ['127.0.0.9', '::1', '::ffff:10.2.3.4', '172.31.0.1', '2001:db8:ffff::1', '192.0.2.7'])
    expect(trusts(address), address).toBe(true);
  for (const address of ['192.0.2.8', '172.32.0.1', '2001:db9::1', '', 'localhost', undefined])
    expect(trusts(address), address).toBe(false);
});
