/**
 * A starting server loads no provider client, no WebSocket library, and only the welcome text of
 * the CLI.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const main = new URL('../src/main.ts', import.meta.url).href;
const commandLine = new URL('../src/cli/program.ts', import.meta.url).href;
const welcome = 'src/cli/render/welcome.ts';
const lateModules = ['dockerode', '@azure', '@aws-sdk', 'ws'];

/** Runs in a new process, because earlier tests may have loaded modules in this one. */
const script = (extraModules: string[]) => `
  import { registerHooks } from 'node:module';
  const loaded = new Set();
  const name = /\\/node_modules\\/(@azure|@aws-sdk|dockerode|ws)\\/|\\/(src\\/cli\\/.*)$/;
  registerHooks({
    load(url, context, next) {
      const match = name.exec(url);
      if (match) loaded.add(match[1] ?? match[2]);
      return next(url, context);
    },
  });
  for (const each of ${JSON.stringify([main, ...extraModules])}) await import(each);
  console.log(JSON.stringify([...loaded]));
`;

async function listLoadedModules(extraModules: string[] = []): Promise<string[]> {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script(extraModules)], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
  });
  return JSON.parse(stdout) as string[];
}

it('importing the server loads no provider client, no WebSockets and no CLI command', async () => {
  expect(await listLoadedModules()).toEqual([welcome]);
});

it('the check detects each of these modules if it is loaded', async () => {
  const loaded = await listLoadedModules([
    'dockerode',
    '@azure/arm-authorization',
    '@aws-sdk/client-ec2',
    'ws',
    commandLine,
  ]);
  expect(loaded).toEqual(expect.arrayContaining([...lateModules, 'src/cli/program.ts']));
});
