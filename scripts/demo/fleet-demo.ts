/** Starts the server of `npm run demo` with the planted fleet. */
import { readFile } from 'node:fs/promises';
import { readSettings } from '../../src/base/settings/settings.ts';
import { createLog } from '../../src/base/telemetry/log.ts';
import { createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { startServer } from '../../src/server/start-server.ts';
import { killProcessesIn } from '../../test/support/tagged-processes.ts';
import { plantFleet } from './planted-fleet.ts';

export interface FleetDemo {
  url: string;
  stop(): Promise<void>;
}

export async function startFleetDemo(options: {
  data_dir: string;
  port: number;
  say(text: string): void;
}): Promise<FleetDemo> {
  const flags = ['--port', String(options.port), '--data-dir', options.data_dir];
  const server = await startServer(readSettings(flags, {}), createLog({ level: 'error' }));
  const token = (await readFile(server.admin_token_path, 'utf8')).trim();
  options.say(`Console  ${server.url}\nToken    in ${server.admin_token_path}\nStarting the fleet and its faults …`);
  const clientFor = (token: string) => createClient({ base_url: server.url, token, addresses: routes });
  const demoEnd = new AbortController();
  await plantFleet({ client: clientFor(token), as: clientFor }, demoEnd.signal);
  options.say('All faults are in place. Open the console: Attention shows what an operator on call sees.');
  return {
    url: server.url,
    async stop() {
      demoEnd.abort();
      await server.stop();
      killProcessesIn(options.data_dir);
    },
  };
}
