/** Renders the text of a server that you start by hand: its address, sign-in, and what to try. */
import { dirname, resolve } from 'node:path';
import { programName } from '../../base/files/program-name.ts';
import { defaultServer } from '../../base/network/default-server.ts';

export interface StartedServer {
  url: string;
  admin_token_path: string;
  admin_token: 'file' | 'environment' | 'revoked' | 'environment_revoked';
}

/** Returns a command that works with the port and the data directory of this server. */
function tryCommand(server: StartedServer): string {
  const serverFlag = server.url === defaultServer ? '' : ` --server ${server.url}`;
  const directory = dirname(server.admin_token_path);
  const directoryFlag =
    server.admin_token === 'environment' || directory === resolve('.slipway') ? '' : ` --data-dir ${directory}`;
  const program = programName(process.env, process.cwd());
  return `${program} allocate --pool local --wait${serverFlag}${directoryFlag}`;
}

const signInTexts: Record<StartedServer['admin_token'], (path: string) => string> = {
  file: (path) => `with the token in ${path}`,
  environment: () => 'with the token in SLIPWAY_ADMIN_TOKEN',
  revoked: () => 'the admin token is not accepted any more; for a new one: slipway admin reset-token',
  environment_revoked: () =>
    'the token in SLIPWAY_ADMIN_TOKEN is not accepted any more; change the variable and start again',
};

export function welcome(server: StartedServer): string {
  return [
    '',
    '  Slipway is ready.',
    '',
    `  Console   ${server.url}`,
    `  Sign in   ${signInTexts[server.admin_token](server.admin_token_path)}`,
    '',
    `  Try       ${tryCommand(server)}`,
    '  Stop      Ctrl-C',
    '',
  ].join('\n');
}
