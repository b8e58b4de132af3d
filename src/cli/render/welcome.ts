/** The text that a server prints when started by hand: its address, how to sign in, what to try. */
import { dirname, resolve } from 'node:path';
import { defaultServer } from '../../base/network/default-server.ts';

export interface Started {
  url: string;
  admin_token_path: string;
}

/** A command that works as it is, whatever the port and the data directory. */
function tryCommand(server: Started): string {
  const where = server.url === defaultServer ? '' : ` --server ${server.url}`;
  const directory = dirname(server.admin_token_path);
  const token = directory === resolve('.slipway') ? '' : ` --data-dir ${directory}`;
  return `./bin/slipway allocate --pool local --wait${where}${token}`;
}

export function welcome(server: Started): string {
  return [
    '',
    '  Slipway is ready.',
    '',
    `  Console   ${server.url}`,
    `  Sign in   with the token in ${server.admin_token_path}`,
    '',
    `  Try       ${tryCommand(server)}`,
    '  Stop      Ctrl-C',
    '',
  ].join('\n');
}
