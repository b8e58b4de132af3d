/**
 * A starting server loads no client of a provider, no WebSockets, and only the welcome text of the
 * CLI.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const main = new URL('../src/main.ts', import.meta.url).href;
const commandLine = new URL('../src/cli/program.ts', import.meta.url).href;
const welcome = 'src/cli/render/welcome.ts';
const clients = ['dockerode', '@azure', '@aws-sdk', 'ws'];

/** Runs in a new process, because earlier tests may have loaded modules in this one. */
const script = (also: string[]) => `
  import { registerHooks } from 'node:module';
  const seen = new Set();
  const name = /\\/node_modules\\/(@azure|@aws-sdk|dockerode|ws)\\/|\\/(src\\/cli\\/.*)$/;
  registerHooks({
    load(url, context, next) {
      const found = name.exec(url);
      if (found) seen.add(found[1] ?? found[2]);
      return next(url, context);
    },
  });
  for (const each of ${JSON.stringify([main, ...also])}) await import(each);
  console.log(JSON.stringify([...seen]));
`;

async function loadedBy(also: string[] = []): Promise<string[]> {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script(also)], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
  });
  return JSON.parse(stdout) as string[];
}

it('loads providers, WebSockets and the command line only when needed', async () => {
  expect(await loadedBy()).toEqual([welcome]);
});

it('detects a module that is loaded', async () => {
  const seen = await loadedBy(['dockerode', '@azure/arm-authorization', '@aws-sdk/client-ec2', 'ws', commandLine]);
  expect(seen).toEqual(expect.arrayContaining([...clients, 'src/cli/program.ts']));
});
