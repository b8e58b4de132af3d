/** Renders the text of a server that you start by hand: its address, sign-in, and what to try. */
import { dirname, resolve } from 'node:path';
import { programName } from '../../base/files/program-name.ts';
import { defaultServer } from '../../base/network/default-server.ts';

export interface StartedServer {
  url: string;
  admin_token_path: string;
  admin_token_kept: boolean;
}

/** Returns a command that works with the port and the data directory of this server. */
function tryCommand(server: StartedServer): string {
  const serverFlag = server.url === defaultServer ? '' : ` --server ${server.url}`;
  const directory = dirname(server.admin_token_path);
  const directoryFlag = !server.admin_token_kept || directory === resolve('.slipway') ? '' : ` --data-dir ${directory}`;
  const program = programName(process.env, process.cwd());
  return `${program} allocate --pool local --wait${serverFlag}${directoryFlag}`;
}

export function welcome(server: StartedServer): string {
  return [
    '',
    '  Slipway is ready.',
    '',
    `  Console   ${server.url}`,
    `  Sign in   with the token in ${server.admin_token_kept ? server.admin_token_path : 'SLIPWAY_ADMIN_TOKEN'}`,
    '',
    `  Try       ${tryCommand(server)}`,
    '  Stop      Ctrl-C',
    '',
  ].join('\n');
}
