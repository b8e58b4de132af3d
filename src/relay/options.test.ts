import { expect, test } from 'vitest';
import { SettingsError } from '../base/settings.ts';
import { readRelayOptions } from './options.ts';

const server = ['--server', 'http://control.example:7070/'];

test('a relay listens on loopback, and its token comes from where others do not see it', () => {
  expect(readRelayOptions(server, { SLIPWAY_RELAY_TOKEN: 'swr_1' })).toMatchObject({
    server_urls: ['http://control.example:7070'],
    host: '127.0.0.1',
    token: 'swr_1',
  });
  expect(readRelayOptions([...server, '--server', 'https://other.example'], {})).toMatchObject({
    server_urls: ['http://control.example:7070', 'https://other.example'],
    token: null,
  });
  expect(readRelayOptions(['--help'], {})).toBeNull();
});

test.each([
  [[], '--server'],
  [['--server', 'ftp://a'], '--server'],
  [[...server, '--host', '0.0.0.0'], 'beyond loopback'],
  [[...server, '--tls-cert', 'a'], 'go together'],
  [[...server, '--port', '70000'], '--port'],
  [[...server, '--token-file', '/nonexistent'], '--token-file'],
  [[...server, '--token-file', '/dev/null'], 'holds no token'],
  [[...server, '--token', 'swr_seen'], '--token'],
])('%j is refused by name', (args, named) => {
  expect(() => readRelayOptions(args, {})).toThrow(SettingsError);
  expect(() => readRelayOptions(args, {})).toThrow(named);
});
