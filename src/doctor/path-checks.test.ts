/** What the path says of itself, in words a person can use. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { systemClock } from '../base/clock.ts';
import type { LayerReport, Patient } from './examination.ts';
import { examine } from './examine.ts';

test('a server that speaks plainly where TLS was expected is told of without the lines of a library', async () => {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  const patient: Patient = {
    url: new URL(`https://127.0.0.1:${port}`),
    ca: null,
    known_keys: null,
    caller: { kind: 'person', token: null, node_id: null },
    correlation_id: 'c',
    clock: systemClock,
    signal: new AbortController().signal,
    patience_seconds: 10,
  };
  try {
    const reports: LayerReport[] = [];
    for await (const report of examine(patient)) reports.push(report);
    const found = reports.find(({ code }) => code !== null);
    expect(found).toMatchObject({ layer: 'tls', code: 'tls_failed' });
    expect(JSON.stringify(found)).toContain('wrong version number');
    expect(JSON.stringify(found)).not.toMatch(/openssl|:error:/i);
  } finally {
    server.close();
  }
});
