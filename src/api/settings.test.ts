import { expect, test } from 'vitest';
import { readSettings } from '../base/settings/settings.ts';
import { apiSettings } from './settings.ts';

const builtFiles = { console_dir: '/nowhere', agent_bundle: '/nowhere/agent.mjs' };

const settingReader = (argv: string[], environment: Record<string, string> = {}) => {
  const { started_with, sources } = apiSettings(readSettings(argv, environment), '1', builtFiles);
  return (name: string) => [started_with[name], sources[name]];
};

test('shows settings as they take effect, with their sources', () => {
  const readLocal = settingReader(['--port', '7071'], { SLIPWAY_LOG_LEVEL: 'info' });
  expect(readLocal('port')).toEqual([7071, '--port']);
  expect(readLocal('log_level')).toEqual(['info', 'SLIPWAY_LOG_LEVEL']);
  expect(readLocal('host')).toEqual(['127.0.0.1', 'default']);
  expect(readLocal('allow_local_driver')).toEqual([true, 'the server listens on this host only']);
  const publicArgv = ['--host', '0.0.0.0', '--behind-proxy', '--trusted-proxies', 'private'];
  expect(settingReader(publicArgv)('allow_local_driver')).toEqual([false, 'default']);
  expect(settingReader([...publicArgv, '--allow-local-driver'])('allow_local_driver')).toEqual([
    true,
    '--allow-local-driver',
  ]);
});

test('shows no tokens and no passwords', () => {
  const secret = 'four-and-twenty-characters';
  const argv = ['--database-url', `postgres://me:${secret}@host/db`];
  const shownSettings = apiSettings(readSettings(argv, { SLIPWAY_ADMIN_TOKEN: secret }), '1', builtFiles);
  expect(JSON.stringify(shownSettings)).not.toContain(secret);
});
