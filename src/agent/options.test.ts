import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { doctorFlags } from './doctor.ts';
import { configFromCommandLine, flags, nodeNameFrom, usage } from './options.ts';
import { configFrom, UsageError } from './state/config.ts';

const server = ['--server', 'https://control.example:7070/'];

test('reads flags to join a pool, and the command after --', () => {
  const args = [...server, '--join-token', 't', '--name', 'box-1', '--dir', 'x', '--', 'serve', '--port', '80'];
  expect(configFromCommandLine(args, {})).toMatchObject({
    server_url: 'https://control.example:7070',
    join_token: 't',
    enrollment_token: null,
    name: 'box-1',
    dir: resolve('x'),
    work_dir: process.cwd(),
    command: ['serve', '--port', '80'],
    deadline_at: null,
  });
});

test('reads tokens from the environment, where other users cannot see them', () => {
  const config = configFromCommandLine(server, { SLIPWAY_ENROLLMENT_TOKEN: 'e' });
  expect(config).toMatchObject({ enrollment_token: 'e', join_token: null, name: null, command: null });
  expect(configFromCommandLine(server, { SLIPWAY_JOIN_TOKEN: 'j' })?.name).toMatch(/^[a-z0-9]/);
});

test('reads the headers of the collector from the environment, but not for an agent that a driver starts', () => {
  const env = { SLIPWAY_OTLP_HEADERS: 'authorization=Bearer%20hunter2', SLIPWAY_JOIN_TOKEN: 'j' };
  expect(configFromCommandLine(server, env)?.otlp_headers).toEqual({ authorization: 'Bearer hunter2' });
  const bad = { ...env, SLIPWAY_OTLP_HEADERS: 'hunter2' };
  expect(() => configFromCommandLine(server, bad)).toThrow(UsageError);
  expect(() => configFromCommandLine(server, bad)).not.toThrow(/hunter2/);
  const directory = mkdtempSync(join(tmpdir(), 'slipway-options-'));
  const file = join(directory, 'agent.json');
  writeFileSync(file, JSON.stringify({ server_url: 'https://control.example', dir: directory, enrollment_token: 'e' }));
  expect(configFromCommandLine(['--config', file], env)?.otlp_headers).toBeUndefined();
  rmSync(directory, { recursive: true });
});

test('reads each flag from an environment variable unless the flag is typed', () => {
  const env = { SLIPWAY_AGENT_SERVER: 'https://a.example', SLIPWAY_AGENT_NAME: 'n', SLIPWAY_AGENT_STREAM: 'true' };
  const variables = {
    ...env,
    SLIPWAY_AGENT_BASE_URL: 'http://b.example',
    SLIPWAY_AGENT_DIR: '/d',
    SLIPWAY_JOIN_TOKEN: 'j',
  };
  const expected = {
    server_url: 'https://a.example',
    name: 'n',
    base_url: 'http://b.example',
    dir: '/d',
    stream: true,
  };
  expect(configFromCommandLine([], variables)).toMatchObject(expected);
  const flags = ['--server', 'https://c.example', '--name', 'flag'];
  const otherVariables = { ...variables, SLIPWAY_AGENT_STREAM: '0', SLIPWAY_AGENT_CONFIG: '/nonexistent/agent.json' };
  expect(configFromCommandLine(flags, otherVariables)).toMatchObject({
    server_url: 'https://c.example',
    name: 'flag',
    stream: false,
  });
  expect(
    () => configFromCommandLine([], otherVariables),
    'reads the configuration file if no --server is typed',
  ).toThrow('/nonexistent');
});

test('derives a node name from a host name', () => {
  expect(nodeNameFrom('My_Host.Example')).toBe('my-host.example');
  expect(nodeNameFrom('--')).toBe('node');
  expect(nodeNameFrom(`a${'-b'.repeat(60)}`)).toMatch(/^[a-z0-9][a-z0-9.-]{0,61}[a-z0-9]$/);
});

test('the usage names every flag of the agent and of its doctor', () => {
  for (const flag of Object.keys({ ...flags, ...doctorFlags }).filter((each) => each !== 'help'))
    expect(usage).toContain(`--${flag}`);
});

test('returns no configuration for --help', () => {
  expect(configFromCommandLine(['--help'], {})).toBeNull();
});

test('refuses an invalid value and names its field', () => {
  const invalidConfigs: [unknown, string][] = [
    [null, 'JSON object'],
    [{ dir: '/x' }, 'server_url'],
    [{ server_url: 'https://a', dir: 'relative' }, 'dir'],
    [{ server_url: 'ftp://a', dir: '/x' }, 'http'],
    [{ server_url: 'https://a', dir: '/x', command: [] }, 'command'],
    [{ server_url: 'https://a', dir: '/x', command: 'ls' }, 'command'],
    [{ server_url: 'https://a', dir: '/x', env: { A: 1 } }, 'env'],
    [{ server_url: 'https://a', dir: '/x', deadline_at: 'soon' }, 'deadline_at'],
    [{ server_url: 'https://a', dir: '/x', boot_stages: [{ name: 'a', seconds: -1 }] }, 'boot_stages'],
    [{ server_url: 'https://a', dir: '/x', requires: [{ name: 'a' }] }, 'requires'],
  ];
  for (const [value, name] of invalidConfigs) {
    expect(() => configFrom(value)).toThrow(UsageError);
    expect(() => configFrom(value)).toThrow(name);
  }
  expect(() => configFromCommandLine(['--no-such-flag'], {})).toThrow(UsageError);
  expect(() => configFromCommandLine(['--config', '/nonexistent/agent.json'], {})).toThrow(UsageError);
});

test('accepts a configuration file with an unknown field', () => {
  const dir = mkdtempSync(join(tmpdir(), 'slipway-config-'));
  const path = join(dir, 'agent.json');
  writeFileSync(path, JSON.stringify({ server_url: 'https://a', dir, of_a_newer_server: true }));
  expect(configFromCommandLine(['--config', path], {})).toMatchObject({ dir, work_dir: dir, boot_stages: [] });
  rmSync(dir, { recursive: true });
});

test('refuses to send a credential to another host over plain HTTP unless allowed explicitly', () => {
  const args = ['--server', 'http://10.0.0.7:7070'];
  const env = { SLIPWAY_JOIN_TOKEN: 'j' };
  expect(() => configFromCommandLine(args, env)).toThrow(/10\.0\.0\.7.*no credential.*--allow-insecure-http/);
  expect(() =>
    configFrom({ server_url: 'https://a.example', other_server_urls: ['http://b.example'], dir: '/d' }),
  ).toThrow('b.example');
  expect(configFromCommandLine([...args, '--allow-insecure-http'], env)?.allow_insecure_http).toBe(true);
  expect(configFromCommandLine(args, { ...env, SLIPWAY_ALLOW_INSECURE_HTTP: '1' })?.server_url).toBe(args[1]);
  for (const url of ['http://127.0.0.1:1', 'http://localhost:1', 'http://[::1]:1'])
    expect(configFromCommandLine(['--server', url], env)?.server_url).toBe(url);
  // These host names only start like a loopback address.
  for (const url of ['http://127.0.0.1.example', 'http://localhost.example', 'http://1270.0.0.1.example'])
    expect(() => configFromCommandLine(['--server', url], env)).toThrow(UsageError);
});

test('reads a token from a file, and warns about a token among the arguments', () => {
  const dir = mkdtempSync(join(tmpdir(), 'slipway-options-'));
  const file = join(dir, 'token');
  writeFileSync(file, 'swj_from-file\n');
  const warnings: string[] = [];
  const warn = (text: string) => void warnings.push(text);
  const env = { SLIPWAY_JOIN_TOKEN: 'swj_from-environment' };
  expect(configFromCommandLine([...server, '--join-token-file', file], env, warn)?.join_token).toBe('swj_from-file');
  expect(configFromCommandLine([...server, '--enrollment-token-file', file], {}, warn)?.enrollment_token).toBe(
    'swj_from-file',
  );
  expect(warnings).toEqual([]);
  expect(configFromCommandLine([...server, '--join-token', 'typed'], {}, warn)?.join_token).toBe('typed');
  expect(warnings.join()).toMatch(/--join-token-file.*SLIPWAY_JOIN_TOKEN/);
  expect(warnings.join()).not.toContain('typed');
  writeFileSync(file, 'two words\n');
  expect(() => configFromCommandLine([...server, '--join-token-file', file], {})).toThrow(UsageError);
  expect(() => configFromCommandLine([...server, '--join-token-file', join(dir, 'none')], {})).toThrow(/none/);
  rmSync(dir, { recursive: true });
});
