import { request } from 'node:http';
import { expect, test } from 'vitest';
import { silentListener } from '../../test/support/silent-listener.ts';
import { checkToken } from './check-token.ts';

test('a control plane that accepts the connection and sends nothing does not block the start', async () => {
  const silent = await silentListener({ port: 0, host: '127.0.0.1' });
  try {
    const open = (method: string, path: string) => request({ host: '127.0.0.1', port: silent.port, method, path });
    await expect(checkToken({ open }, 'swr_any', 50)).resolves.toBeUndefined();
  } finally {
    await silent.close();
  }
});
