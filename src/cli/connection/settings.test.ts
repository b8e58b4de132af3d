/** Checks where the token comes from, and to which servers it is sent. */
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { defaultServer } from '../../base/network/default-server.ts';
import { type ConnectionInput, normalizeServer, resolveConnection } from './settings.ts';

let root: string;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'slipway-settings-'));
  const tokens = { 'here/.slipway': 'from-here', 'clone/.slipway': 'from-clone', named: 'from-named' };
  for (const [directory, token] of Object.entries(tokens)) {
    mkdirSync(join(root, directory), { recursive: true });
    writeFileSync(join(root, directory, 'admin.token'), `${token}\n`);
  }
  writeFileSync(join(root, 'token'), 'from-file\n');
  writeFileSync(join(root, 'two'), 'one\ntwo\n');
});

const tokenFor = (input: Partial<ConnectionInput>, environment = {}, working_directory = join(root, 'here')) =>
  resolveConnection({ server: defaultServer, ...input }, { environment, working_directory, clone: join(root, 'clone') })
    .token;
const flag = (value: string) => ({ value, source: 'flag' as const });
const variable = (value: string) => ({ value, source: 'environment' as const });

test('prefers flags over the environment, and both over admin.token', () => {
  const admin = { SLIPWAY_ADMIN_TOKEN: 'from-admin' };
  const file = join(root, 'token');
  expect(tokenFor({ token_file: flag(file), token: flag('typed') }, admin)).toBe('from-file');
  expect(tokenFor({ token_file: variable(file), token: flag('typed') }, admin)).toBe('typed');
  expect(tokenFor({ token_file: variable(file), token: variable('set') }, admin)).toBe('from-file');
  expect(tokenFor({ token: variable('set') }, admin)).toBe('set');
  expect(tokenFor({ data_dir: flag(join(root, 'named')) }, admin)).toBe('from-admin');
  expect(tokenFor({ data_dir: flag(join(root, 'named')) })).toBe('from-named');
  expect(tokenFor({})).toBe('from-here');
  expect(tokenFor({}, {}, root)).toBe('from-clone');
  expect(tokenFor({ data_dir: flag(join(root, 'nowhere')) })).toBeUndefined();
});

test('names the searched directory that has no token, as you typed it', () => {
  const searchedDirectory = (input: Partial<ConnectionInput>, working_directory = join(root, 'bare')) =>
    resolveConnection(
      { server: defaultServer, ...input },
      { environment: {}, working_directory, clone: join(root, 'bare') },
    ).searched_directory;
  expect(searchedDirectory({ data_dir: flag('../nowhere') })).toBe('../nowhere');
  expect(searchedDirectory({ data_dir: variable('nowhere'), server: 'http://slipway.example.com' })).toBe('nowhere');
  expect(searchedDirectory({})).toBe('.slipway');
  expect(searchedDirectory({ server: 'http://slipway.example.com' })).toBeUndefined();
  expect(searchedDirectory({}, join(root, 'here'))).toBeUndefined();
  expect(searchedDirectory({ token: variable('set') })).toBeUndefined();
});

test('does not send the admin token of a default directory to another host', () => {
  expect(tokenFor({ server: 'http://slipway.example.com' })).toBeUndefined();
  expect(tokenFor({ server: 'http://localhost:7070' })).toBe('from-here');
  expect(tokenFor({ server: 'http://[::1]:7070' })).toBe('from-here');
  expect(tokenFor({ server: 'https://slipway.example.com', token: variable('set') })).toBe('set');
});

test('refuses a token file that is missing or holds more than one token', () => {
  expect(() => tokenFor({ token_file: flag(join(root, 'none')) })).toThrow(/token file .*none cannot be read/);
  expect(() => tokenFor({ token_file: flag(join(root, 'two')) })).toThrow(/does not hold one token/);
});

test.each([
  ['http://127.0.0.1:7070/', 'http://127.0.0.1:7070'],
  ['localhost:7071', 'http://localhost:7071'],
  ['https://slipway.example.com/base/', 'https://slipway.example.com/base'],
])('reads %s as the server %s', (text, server) => expect(normalizeServer(text)).toBe(server));

test.each(['', 'ftp://x', 'http://', 'http://user:pw@host', 'a b'])('refuses %j as a server', (text) => {
  expect(() => normalizeServer(text)).toThrow(/is not an address/);
});

test('sends a token to another host only over TLS, unless a flag allows it', () => {
  const input = { server: 'http://slipway.example.com', token: variable('set') };
  expect(() => tokenFor(input)).toThrow(/without TLS, so your token is not sent/);
  expect(() => tokenFor({ ...input, data_dir: flag(join(root, 'named')), token: undefined as never })).toThrow(
    /without TLS/,
  );
  expect(tokenFor({ ...input, allow_insecure_http: true })).toBe('set');
  expect(tokenFor({ ...input, server: 'http://127.0.0.1:7070' })).toBe('set');
});
