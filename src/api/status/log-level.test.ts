/** Tests that the usual log level returns by itself, and that even level debug logs no secret. */
import { expect, test } from 'vitest';
import { spawnServer } from '../../../test/support/server.ts';
import { until } from '../../../test/support/until.ts';
import { createLog } from '../../base/telemetry/log.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import { controlLogLevel, toLevelChange } from './log-level.ts';

const changed = (level: string, until: string) => ({ kind: 'log_level.changed', data: { level, until } });

test('restores the usual level when the time is over; a later change replaces an earlier one', async () => {
  const clock = virtualClock();
  const log = createLog({ level: 'warn', destination: { write() {} } });
  const control = controlLogLevel(log, clock);
  const observe = (level: 'debug' | 'info', for_seconds: number) =>
    control.observe(changed(level, toLevelChange({ level, for_seconds }, clock).until.toISOString()));
  observe('debug', 60);
  expect(control.state()).toMatchObject({ level: 'debug', usual: 'warn' });
  await clock.advance(30_000);
  observe('info', 60);
  await clock.advance(59_000);
  expect(log.level).toBe('info');
  await clock.advance(1_000);
  expect(control.state()).toEqual({ level: 'warn', usual: 'warn', until: null });
});

test('ignores facts of other kinds, and levels that do not exist', () => {
  const log = createLog({ level: 'warn', destination: { write() {} } });
  const control = controlLogLevel(log, virtualClock());
  control.observe({ kind: 'node.ready', data: { level: 'debug', until: '2030-01-01T00:00:00Z' } });
  control.observe(changed('shout', '2030-01-01T00:00:00Z'));
  expect(log.level).toBe('warn');
});

test('lets only an admin change the level, and records who did; level debug logs no secret', async () => {
  const server = await spawnServer({ args: ['--log-level', 'warn'] });
  try {
    const { client } = server;
    const reader = await client.call('token-create', { body: { name: 'reader', role: 'operator' } });
    await expect(
      server.as(reader.token ?? '').call('log-level-set', { body: { level: 'debug' } }),
    ).rejects.toMatchObject({ problem: { code: 'role_insufficient' } });

    const set = await client.call('log-level-set', { body: { level: 'debug', for_seconds: 600 } });
    expect(set).toMatchObject({ level: 'debug', usual: 'warn' });
    await until('the level to change', () => server.output().includes('the log level is changed'));
    const { log: state } = await client.call('server-status', {});
    expect(state).toEqual(set);
    const { items } = await client.call('audit-list', { query: {} });
    const changes = items.filter(({ kind }) => kind === 'log_level.changed');
    expect(changes).toMatchObject([{ actor: { name: 'admin' }, data: { level: 'debug' } }]);

    const secret = 'a-secret-value-that-no-log-may-show-4711';
    await client.call('secret-put', { params: { name: 'kept' }, body: { value: secret } });
    // A caller that puts secrets where they do not belong: address, body, headers.
    const authorization = `Bearer ${server.token}`;
    for (const hidden of [secret, server.token])
      await fetch(`${server.url}/v1/nodes?cursor=${hidden}`, {
        headers: { authorization, 'x-correlation-id': hidden },
      });
    await fetch(`${server.url}/v1/pools/${secret}`, {
      method: 'PUT',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ driver: secret, password: server.token }),
    });
    const requests = () =>
      server
        .output()
        .split('\n')
        .filter((line) => line.includes('"message":"request"'));
    await until('the calls to be logged', () => requests().some((line) => line.includes('"operation":"pool-put"')));
    expect(requests().some((line) => line.includes('"level":"debug"'))).toBe(true);
    for (const hidden of [secret, server.token, reader.token ?? '']) expect(server.output()).not.toContain(hidden);
  } finally {
    await server.stop();
  }
});
