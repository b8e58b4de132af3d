/**
 * A relay that stops or cannot start leaves no broken connection on record; only one that died
 * does.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { createLog } from '../../../src/base/telemetry/log.ts';
import { type Relay, startRelay } from '../../../src/relay/relay.ts';
import { until } from '../../support/until.ts';
import { openStream } from '../support/stream-client.ts';
import { externalPool, externalServer } from '../support/tenants.ts';

const program = join(import.meta.dirname, '../../../src/relay/main.ts');

let server: Awaited<ReturnType<typeof externalServer>>;
beforeAll(async () => {
  server = await externalServer();
});
afterAll(() => server.stop());

type Token = Awaited<ReturnType<typeof server.tokenFor>>;
const relayToken = () => server.tokenFor('relay', { pool: externalPool });

async function streamingRelay({ token }: Token): Promise<Relay> {
  const listens = { host: '127.0.0.1', port: 0, ca: null, tls_cert: null, tls_key: null, behind_proxy: false };
  const relay = await startRelay(
    { ...listens, server_urls: [server.url], token, log_level: 'silent' },
    { clock: systemClock, log: createLog({ level: 'silent' }) },
  );
  await until('its stream to be open', () => relay.figures().streaming);
  return relay;
}

/** Runs the process of another relay until it ends. */
const startedBeside = ({ url }: Relay, { token }: Token) =>
  new Promise<{ code: unknown; stderr: string }>((resolve) => {
    const args = [program, '--server', server.url, '--port', new URL(url).port];
    const options = { env: { ...process.env, SLIPWAY_RELAY_TOKEN: token }, timeout: 60_000 };
    execFile(process.execPath, args, options, (error, _, stderr) => resolve({ code: error?.code, stderr }));
  });

const brokenOf = ({ token_id }: Token) =>
  server.tables.query("select data from evidence where kind = 'connection.broken' and actor ->> 'id' = $1", [token_id]);

/** Breaks are recorded in order, so earlier ones are on record then too. */
async function anotherBreaks(): Promise<void> {
  const other = await relayToken();
  (await openStream(server.url, other.token)).socket.terminate();
  await until('that to be on record', async () => (await brokenOf(other)).length > 0);
}

it('reports that its port is taken, and records nothing under the name of the holder', async () => {
  const token = await relayToken();
  const relay = await streamingRelay(token);
  const { code, stderr } = await startedBeside(relay, token);
  expect(code).toBe(1);
  expect(stderr).toContain(`another program already listens at ${new URL(relay.url).host}`);
  await anotherBreaks();
  expect(await brokenOf(token)).toEqual([]);
  expect(relay.figures().streaming).toBe(true);
  await relay.stop();
});

it('closes its stream properly when it is stopped', async () => {
  const token = await relayToken();
  await (await streamingRelay(token)).stop();
  await anotherBreaks();
  expect(await brokenOf(token)).toEqual([]);
});
