/** Runs the user-data script on simulated machines, with and without systemd and a server. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import type { FakeInstance } from '../../../test/support/ec2/account.ts';
import { type BootingMachines, bootingMachines } from '../../../test/support/ec2/booting.ts';
import { newTarget } from '../../../test/support/ec2/ec2-fixture.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { until } from '../../../test/support/until.ts';
import { sha256 } from '../../base/files/agent-bundle.ts';
import { bundlePath, userData } from './user-data.ts';

let machines: BootingMachines;
afterEach(() => machines.close());

const agent = '// the agent';
const digest = sha256(Buffer.from(agent));

function boot(server_url: string, other_server_urls: string[] = []): FakeInstance {
  const target = newTarget('installation-a', { prepare: 'exit 0' });
  Object.assign(target.bootstrap, { server_url, other_server_urls });
  const fields = new URLSearchParams({ UserData: Buffer.from(userData(target, digest)).toString('base64') });
  const instance = { id: 'i-1', fields, console: '' } as FakeInstance;
  machines.launched?.(instance);
  return instance;
}

const untilConsoleShows = (instance: FakeInstance, text: string) =>
  until(`console to show ${text}`, () => (instance.console.includes(text) ? true : undefined));

it('fetches the agent from the replica that answers and installs it as a service', async () => {
  machines = bootingMachines();
  machines.addSystemd();
  const requests: (string | undefined)[] = [];
  const server = createServer((request, reply) => {
    requests.push(request.url);
    reply.writeHead(200, { 'content-type': 'text/javascript; charset=utf-8' }).end(agent);
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const unreachableUrl = `http://127.0.0.1:${await freePort()}`;
  const instance = boot(unreachableUrl, [`http://127.0.0.1:${port}/`]);
  await untilConsoleShows(instance, 'systemctl enable --now slipway-agent.service');
  server.close();
  expect(requests).toEqual([`${bundlePath}?sha256=${digest}`]);
  const disk = machines.diskOf(instance);
  expect(readFileSync(join(disk, '/opt/slipway/agent.mjs'), 'utf8')).toBe(agent);
  const unit = join(disk, '/etc/systemd/system/slipway-agent.service');
  expect(readFileSync(unit, 'utf8')).toMatch(/^ExecStart=\S+\/bin\/node \S+agent\.mjs --config \S+agent\.json$/m);
  expect(readFileSync(unit, 'utf8')).not.toContain('SLIPWAY_NODE');
  expect(readFileSync(unit, 'utf8'), 'the command survives its agent').toMatch(/^KillMode=process$/m);
  expect(statSync(unit).mode & 0o777).toBe(0o644);
});

it('prints the URL of an unreachable server on the console and retries', async () => {
  machines = bootingMachines();
  const unreachableUrl = `http://127.0.0.1:${await freePort()}`;
  const instance = boot(unreachableUrl);
  await untilConsoleShows(instance, `slipway: cannot fetch the agent from ${unreachableUrl}: `);
  expect(instance.console).toContain('retrying');
  expect(instance.console).not.toContain('boot failed');
});

it('passes secret values and their names to the agent, and throws for an unresolved secret', () => {
  machines = bootingMachines();
  const target = newTarget('installation-a', { env: { GREETING: 'quince bramble 5', MODE: 'fast' } });
  const { secret_env, env } = configIn(
    userData({ ...target, bootstrap: { ...target.bootstrap, secret_env: ['GREETING'] } }, digest),
  );
  expect({ secret_env, env }).toEqual({
    secret_env: ['GREETING'],
    env: { GREETING: 'quince bramble 5', MODE: 'fast' },
  });
  const unresolved = newTarget('installation-a', { env: { GREETING: { secret: 'greeting' } } });
  expect(() => userData(unresolved, digest)).toThrow('greeting');
});

/** Reads the agent's configuration, which the script holds as one line of JSON. */
const configIn = (script: string): Record<string, unknown> =>
  JSON.parse(/<<'SLIPWAY_CONFIG'\n(.*)\nSLIPWAY_CONFIG/.exec(script)?.[1] ?? '{}');

it('does not run a file without the announced digest, and retries', async () => {
  machines = bootingMachines();
  machines.addSystemd();
  let served = '// another agent';
  const server = createServer((_, reply) => {
    reply.writeHead(200, { 'content-type': 'text/javascript; charset=utf-8' }).end(served);
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const instance = boot(`http://127.0.0.1:${port}`);
  await untilConsoleShows(instance, 'the file does not have the announced SHA-256 digest; retrying');
  expect(existsSync(join(machines.diskOf(instance), '/opt/slipway/agent.mjs'))).toBe(false);
  expect(instance.console).not.toContain('starting the agent');
  served = agent;
  await untilConsoleShows(instance, 'starting the agent');
  server.close();
});
