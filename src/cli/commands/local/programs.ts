/**
 * `slipway serve`, `agent` and `relay` are separate programs, and bin/slipway starts them without
 * loading this one. They are declared here so that help and completions list them.
 */
import { Command } from 'commander';
import type { MakeCommand } from '../../command.ts';
import { CliFailure } from '../../terminal/failure.ts';

const separateProgram =
  (name: string, description: string, entry: string): MakeCommand =>
  () =>
    new Command(name)
      .description(description)
      .allowUnknownOption()
      .allowExcessArguments()
      .helpOption(false)
      .action(() => {
        throw new CliFailure('usage', `Start slipway ${name} with bin/slipway`, {
          remedy: `Run ./bin/slipway ${name}, or node ${entry}.`,
        });
      });

export const makeServe = separateProgram(
  'serve',
  'Run the server, as npm start does; slipway serve --help shows its flags.',
  'src/main.ts',
);
export const makeAgent = separateProgram(
  'agent',
  'Run the agent of a node; slipway agent --help shows its flags. On a machine, slipway agent doctor finds the layer that fails on the way to its server.',
  'src/agent/main.ts',
);
export const makeRelay = separateProgram(
  'relay',
  'Run a relay, which batches the heartbeats of a rack and forwards everything else; slipway relay --help shows its flags.',
  'src/relay/main.ts',
);
