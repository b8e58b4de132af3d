import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { describeStartFailure } from './start-failure.ts';

const listening = (host: string, port: number) =>
  new Promise<{ error: Error | null; port: number; close(): void }>((resolve) => {
    const server = createServer();
    const close = () => void server.close();
    server.on('error', (error) => resolve({ error, port, close }));
    server.listen(port, host, () => resolve({ error: null, port: (server.address() as { port: number }).port, close }));
  });

test('names the port that is in use, and says what to do', async () => {
  const first = await listening('127.0.0.1', 0);
  const { port } = first;
  const { error } = await listening('127.0.0.1', port);
  first.close();
  const said = describeStartFailure(error ?? expect.fail('both listen'), { host: '127.0.0.1', port });
  expect(said).toMatch(`something else listens at 127.0.0.1:${port} already`);
  expect(said).toContain('another --port');
});

test('returns the message of an unexpected error unchanged', () => {
  const other = Object.assign(new Error('no such file'), { code: 'EACCES', syscall: 'open' });
  expect(describeStartFailure(other, { host: '::1', port: 1 })).toBe('no such file');
});
