import { expect, test } from 'vitest';
import { SettingsError } from '../base/settings/flag-values.ts';
import { readRelayOptions } from './options.ts';

const server = ['--server', 'https://control.example:7070/'];

test('listens on loopback by default, and reads its token from the environment', () => {
  expect(readRelayOptions(server, { SLIPWAY_RELAY_TOKEN: 'swr_1' })).toMatchObject({
    server_urls: ['https://control.example:7070'],
    host: '127.0.0.1',
    token: 'swr_1',
  });
  expect(readRelayOptions([...server, '--server', 'https://other.example'], {})).toMatchObject({
    server_urls: ['https://control.example:7070', 'https://other.example'],
    token: null,
  });
  expect(readRelayOptions(['--help'], {})).toBeNull();
});

test('reads each flag from an environment variable, but prefers the flag', () => {
  const env = {
    SLIPWAY_RELAY_SERVER: 'https://a.example, https://b.example/',
    SLIPWAY_RELAY_HOST: '0.0.0.0',
    SLIPWAY_RELAY_PORT: '7171',
    SLIPWAY_RELAY_BEHIND_PROXY: 'yes',
    SLIPWAY_RELAY_LOG_LEVEL: 'debug',
    SLIPWAY_RELAY_TLS_CERT: '',
  };
  const expected = { host: '0.0.0.0', port: 7171, behind_proxy: true, log_level: 'debug', tls_cert: null };
  expect(readRelayOptions([], env)).toMatchObject({
    ...expected,
    server_urls: ['https://a.example', 'https://b.example'],
  });
  const options = readRelayOptions([...server, '--port', '1', '--host', '::1'], {
    ...env,
    SLIPWAY_RELAY_BEHIND_PROXY: 'no',
  });
  expect(options).toMatchObject({ server_urls: ['https://control.example:7070'], port: 1, behind_proxy: false });
});

test.each([
  [[], '--server'],
  [['--server', 'ftp://a'], '--server'],
  [[...server, '--host', '0.0.0.0'], 'not a loopback address'],
  [[...server, '--tls-cert', 'a'], 'must be set together'],
  [[...server, '--port', '70000'], '--port'],
  [[...server, '--token-file', '/nonexistent'], '--token-file'],
  [[...server, '--token-file', '/dev/null'], 'holds no token'],
  [[...server, '--token', 'swr_seen'], '--token'],
])('refuses %j with a message about %s', (args, message) => {
  expect(() => readRelayOptions(args, {})).toThrow(SettingsError);
  expect(() => readRelayOptions(args, {})).toThrow(message);
});

test('refuses to send credentials to another host over plain HTTP unless allowed explicitly', () => {
  const args = ['--server', 'https://a.example', '--server', 'http://10.0.0.7:7070'];
  expect(() => readRelayOptions(args, {})).toThrow(/10\.0\.0\.7.*--allow-insecure-http/);
  expect(readRelayOptions([...args, '--allow-insecure-http'], {})?.server_urls).toHaveLength(2);
  expect(readRelayOptions(args, { SLIPWAY_ALLOW_INSECURE_HTTP: 'true' })?.server_urls).toHaveLength(2);
  expect(readRelayOptions(['--server', 'http://127.0.0.1:7070'], {})?.server_urls).toHaveLength(1);
});
