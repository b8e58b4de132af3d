/** `npm run demo`: its own server with the planted fleet, in a temporary directory. */
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
  options.say(
    `Console  ${server.url}\nToken    in ${server.admin_token_path}\nBringing the fleet up, with its faults …`,
  );
  const as = (other: string) => createClient({ base_url: server.url, token: other, addresses: routes });
  const ended = new AbortController();
  await plantFleet({ client: as(token), as }, ended.signal);
  options.say('All faults are there. Open the console: Attention shows what a person on call would see.');
  return {
    url: server.url,
    async stop() {
      ended.abort();
      await server.stop();
      killProcessesIn(options.data_dir);
    },
  };
}
