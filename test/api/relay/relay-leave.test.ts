/** A relay that is stopped or cannot start causes no evidence of a broken connection. */
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
const createRelayToken = () => server.tokenFor('relay', { pool: externalPool });

async function startStreamingRelay({ token }: Token): Promise<Relay> {
  const listenOptions = { host: '127.0.0.1', port: 0, ca: null, tls_cert: null, tls_key: null, behind_proxy: false };
  const relay = await startRelay(
    { ...listenOptions, server_urls: [server.url], token, log_level: 'silent' },
    { clock: systemClock, log: createLog({ level: 'silent' }) },
  );
  await until('the stream of the relay to be open', () => relay.figures().streaming);
  return relay;
}

/** Starts a second relay process at the port of the first, and waits until it exits. */
const runRelayAtSamePort = ({ url }: Relay, { token }: Token) =>
  new Promise<{ code: unknown; stderr: string }>((resolve) => {
    const args = [program, '--server', server.url, '--port', new URL(url).port];
    const options = { env: { ...process.env, SLIPWAY_RELAY_TOKEN: token }, timeout: 60_000 };
    execFile(process.execPath, args, options, (error, _, stderr) => resolve({ code: error?.code, stderr }));
  });

const readBrokenConnections = ({ token_id }: Token) =>
  server.tables.query("select data from evidence where kind = 'connection.broken' and actor ->> 'id' = $1", [token_id]);

/**
 * Breaks another connection and waits for its evidence. Broken connections are recorded in order,
 * so evidence of earlier ones would be stored by then.
 */
async function waitForLaterBreak(): Promise<void> {
  const otherToken = await createRelayToken();
  (await openStream(server.url, otherToken.token)).socket.terminate();
  await until(
    'evidence of the later broken connection',
    async () => (await readBrokenConnections(otherToken)).length > 0,
  );
}

it('exits when its port is taken, without evidence of a broken connection for its token', async () => {
  const token = await createRelayToken();
  const relay = await startStreamingRelay(token);
  const { code, stderr } = await runRelayAtSamePort(relay, token);
  expect(code).toBe(1);
  expect(stderr).toContain(`another program already listens at ${new URL(relay.url).host}`);
  await waitForLaterBreak();
  expect(await readBrokenConnections(token)).toEqual([]);
  expect(relay.figures().streaming).toBe(true);
  await relay.stop();
});

it('causes no evidence of a broken connection when it is stopped', async () => {
  const token = await createRelayToken();
  await (await startStreamingRelay(token)).stop();
  await waitForLaterBreak();
  expect(await readBrokenConnections(token)).toEqual([]);
});
