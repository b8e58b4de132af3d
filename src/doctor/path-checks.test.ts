/** Tests the text of a failed TLS check. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { systemClock } from '../base/clock.ts';
import type { DoctorTarget, LayerReport } from './examination.ts';
import { examine } from './examine.ts';

test("reports a server without TLS in plain words, without OpenSSL's source lines", async () => {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  const target: DoctorTarget = {
    url: new URL(`https://127.0.0.1:${port}`),
    ca: null,
    known_keys: null,
    caller: { kind: 'person', token: null, node_id: null },
    correlation_id: 'c',
    clock: systemClock,
    signal: new AbortController().signal,
    timeout_seconds: 10,
  };
  try {
    const reports: LayerReport[] = [];
    for await (const report of examine(target)) reports.push(report);
    const failure = reports.find(({ code }) => code !== null);
    expect(failure).toMatchObject({ layer: 'tls', code: 'tls_failed' });
    expect(JSON.stringify(failure)).toContain('wrong version number');
    expect(JSON.stringify(failure)).not.toMatch(/openssl|:error:/i);
  } finally {
    server.close();
  }
});
