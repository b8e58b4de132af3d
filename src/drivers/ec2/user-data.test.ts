/** User-data in cases that need no real node: systemd, and a server that is not there yet. */
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

function boots(server_url: string, other_server_urls: string[] = []): FakeInstance {
  const target = newTarget('installation-a', { prepare: 'exit 0' });
  Object.assign(target.bootstrap, { server_url, other_server_urls });
  const fields = new URLSearchParams({ UserData: Buffer.from(userData(target, digest)).toString('base64') });
  const instance = { id: 'i-1', fields, console: '' } as FakeInstance;
  machines.launched?.(instance);
  return instance;
}

const says = (instance: FakeInstance, what: string) =>
  until(`console to say ${what}`, () => (instance.console.includes(what) ? true : undefined));

it('installs the agent as a service, fetched from whichever replica answers', async () => {
  machines = bootingMachines();
  machines.addSystemd();
  const requests: (string | undefined)[] = [];
  const server = createServer((request, reply) => {
    requests.push(request.url);
    reply.writeHead(200, { 'content-type': 'text/javascript; charset=utf-8' }).end(agent);
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const gone = `http://127.0.0.1:${await freePort()}`;
  const instance = boots(gone, [`http://127.0.0.1:${port}/`]);
  await says(instance, 'systemctl enable --now slipway-agent.service');
  server.close();
  expect(requests).toEqual([`${bundlePath}?sha256=${digest}`]);
  const disk = machines.diskOf(instance);
  expect(readFileSync(join(disk, '/opt/slipway/agent.mjs'), 'utf8')).toBe(agent);
  const unit = join(disk, '/etc/systemd/system/slipway-agent.service');
  expect(readFileSync(unit, 'utf8')).toMatch(/^ExecStart=\S+\/bin\/node \S+agent\.mjs --config \S+agent\.json$/m);
  expect(readFileSync(unit, 'utf8')).not.toContain('SLIPWAY_NODE');
  expect(statSync(unit).mode & 0o777).toBe(0o644);
});

it('names the unreachable server on the console, and keeps trying', async () => {
  machines = bootingMachines();
  const gone = `http://127.0.0.1:${await freePort()}`;
  const instance = boots(gone);
  await says(instance, `slipway: cannot fetch the agent from ${gone}: `);
  expect(instance.console).toContain('it is tried again');
  expect(instance.console).not.toContain('boot failed');
});

it('passes secret values to the agent and marks them; an unread secret is a bug', () => {
  machines = bootingMachines();
  const target = newTarget('installation-a', { env: { GREETING: 'quince bramble 5', MODE: 'fast' } });
  const { secret_env, env } = configIn(
    userData({ ...target, bootstrap: { ...target.bootstrap, secret_env: ['GREETING'] } }, digest),
  );
  expect({ secret_env, env }).toEqual({
    secret_env: ['GREETING'],
    env: { GREETING: 'quince bramble 5', MODE: 'fast' },
  });
  const unread = newTarget('installation-a', { env: { GREETING: { secret: 'greeting' } } });
  expect(() => userData(unread, digest)).toThrow('greeting');
});

/** The agent's configuration is one line of JSON between its marks. */
const configIn = (script: string): Record<string, unknown> =>
  JSON.parse(/<<'SLIPWAY_CONFIG'\n(.*)\nSLIPWAY_CONFIG/.exec(script)?.[1] ?? '{}');

it('runs only a file with the announced digest', async () => {
  machines = bootingMachines();
  machines.addSystemd();
  let sent = '// an agent of somebody else';
  const server = createServer((_, reply) => {
    reply.writeHead(200, { 'content-type': 'text/javascript; charset=utf-8' }).end(sent);
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const instance = boots(`http://127.0.0.1:${port}`);
  await says(instance, 'another file than was announced (SHA-256); it is tried again');
  expect(existsSync(join(machines.diskOf(instance), '/opt/slipway/agent.mjs'))).toBe(false);
  expect(instance.console).not.toContain('starting the agent');
  sent = agent;
  await says(instance, 'starting the agent');
  server.close();
});
