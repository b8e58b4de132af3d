/** Nobody pays for what no pool and no agent uses: a server that only starts has loaded no client of a provider and no WebSockets. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const main = new URL('../src/main.ts', import.meta.url).href;
const clients = ['dockerode', '@azure', '@aws-sdk', 'ws'];

/** In a process of its own: whoever ran here before may have loaded anything. */
const script = (also: string[]) => `
  import { registerHooks } from 'node:module';
  const seen = new Set();
  const name = /\\/node_modules\\/(@azure|@aws-sdk|dockerode|ws)\\//;
  registerHooks({
    load(url, context, next) {
      const found = name.exec(url);
      if (found) seen.add(found[1]);
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

it('the clients of engines and clouds are not loaded with the server', async () => {
  expect(await loadedBy()).toEqual([]);
  // It would be seen if they were.
  expect(new Set(await loadedBy(['dockerode', '@azure/arm-authorization', '@aws-sdk/client-ec2', 'ws']))).toEqual(
    new Set(clients),
  );
});
