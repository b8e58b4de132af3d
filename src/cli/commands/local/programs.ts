/**
 * Declares the programs that bin/slipway starts without this command line, so that help and
 * completions list them.
 */
import { Command } from 'commander';
import type { MakeCommand } from '../../command.ts';
import { CliFailure } from '../../terminal/failure.ts';

const separateProgram =
  (name: string, description: string): MakeCommand =>
  () =>
    new Command(name)
      .description(description)
      .allowUnknownOption()
      .allowExcessArguments()
      .helpOption(false)
      .action(() => {
        throw new CliFailure('usage', `Start slipway ${name} with bin/slipway`, {
          remedy: `Run ./bin/slipway ${name}.`,
        });
      });

export const makeServe = separateProgram(
  'serve',
  'Run the server, as npm start does; slipway serve --help shows its flags.',
);
export const makeAgent = separateProgram(
  'agent',
  'Run the agent of a node; slipway agent --help shows its flags. On a machine, slipway agent doctor finds the layer that fails on the way to its server.',
);
export const makeRelay = separateProgram(
  'relay',
  'Run a relay, which batches the heartbeats of a rack and forwards everything else; slipway relay --help shows its flags.',
);
export const makeUpgrade = separateProgram(
  'upgrade',
  'Check what happens when this version starts on a database; slipway upgrade --help shows its flags.',
);
export const makeAdmin = separateProgram(
  'admin',
  'Create a new admin token on the host of the server, if none is accepted any more; slipway admin --help shows its flags.',
);
export const makeBackup = separateProgram(
  'backup',
  'Write an encrypted copy of the whole database while the server runs; slipway backup verify FILE reads one to its end.',
);
export const makeRestore = separateProgram(
  'restore',
  'Load a backup into an empty database; slipway restore --help shows its flags.',
);
export const makeMoveDatabase = separateProgram(
  'move-database',
  'Move the embedded database of a stopped server to another PostgreSQL; slipway move-database --help shows its flags.',
);
