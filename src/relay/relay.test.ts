/** Tests the start of a relay: the token check, the log of refusals, the text of a failed start. */
import { request } from 'node:http';
import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { silentListener } from '../../test/support/silent-listener.ts';
import { checkToken, describeStartFailure, logRefusals } from './relay.ts';

test('starts although the control plane accepts the connection and sends nothing', async () => {
  const silent = await silentListener({ port: 0, host: '127.0.0.1' });
  try {
    const open = (method: string, path: string) => request({ host: '127.0.0.1', port: silent.port, method, path });
    await expect(checkToken({ open }, 'swr_any', 50)).resolves.toBeUndefined();
  } finally {
    await silent.close();
  }
});

test("logs refusals caused by the relay's token, once per reason", () => {
  const logged: string[] = [];
  const logRefusal = logRefusals({ error: (fields: { why: string }) => logged.push(fields.why) } as never);
  const refuse = (code: string, detail: string) => logRefusal({ code, status: 403, detail });
  for (let batch = 0; batch < 3; batch++) {
    refuse('scope_insufficient', 'for metal alone, and this is of gpu');
    refuse('scope_insufficient', 'for metal alone, and this is of edge');
    refuse('credential_unknown', 'not known');
  }
  expect(logged).toEqual(['for metal alone, and this is of gpu', 'for metal alone, and this is of edge']);
});

const listen = (host: string, port: number) =>
  new Promise<{ error: Error | null; port: number; close(): void }>((resolve) => {
    const server = createServer();
    const close = () => void server.close();
    server.on('error', (error) => resolve({ error, port, close }));
    server.listen(port, host, () => resolve({ error: null, port: (server.address() as { port: number }).port, close }));
  });

test('names the port that is in use, and says what to do', async () => {
  const first = await listen('127.0.0.1', 0);
  const { port } = first;
  const { error } = await listen('127.0.0.1', port);
  first.close();
  const message = describeStartFailure(error ?? expect.fail('both listen'), { host: '127.0.0.1', port });
  expect(message).toMatch(`another program already listens at 127.0.0.1:${port}`);
  expect(message).toContain('another --port');
});

test('returns the message of an unexpected error unchanged', () => {
  const other = Object.assign(new Error('no such file'), { code: 'EACCES', syscall: 'open' });
  expect(describeStartFailure(other, { host: '::1', port: 1 })).toBe('no such file');
});
