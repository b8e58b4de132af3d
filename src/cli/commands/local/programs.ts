/**
 * `slipway serve`, `slipway agent` and `slipway relay` are programs of their own, which bin/slipway starts before this one is reached.
 * They stand here so that `--help` and the completions name them.
 */
import { Command } from 'commander';
import type { MakeCommand } from '../../command.ts';
import { CliFailure } from '../../terminal/failure.ts';

const elsewhere =
  (name: string, description: string, entry: string): MakeCommand =>
  () =>
    new Command(name)
      .description(description)
      .allowUnknownOption()
      .allowExcessArguments()
      .helpOption(false)
      .action(() => {
        throw new CliFailure('usage', `slipway ${name} is started through bin/slipway`, {
          remedy: `Run ./bin/slipway ${name}, or node ${entry}.`,
        });
      });

export const makeServe = elsewhere(
  'serve',
  'Run the server (the same as npm start); slipway serve --help shows its flags.',
  'src/main.ts',
);
export const makeAgent = elsewhere(
  'agent',
  'Run the agent of a node; slipway agent --help shows its flags. On the machine, slipway agent doctor says which layer fails on the way to its server.',
  'src/agent/main.ts',
);
export const makeRelay = elsewhere(
  'relay',
  'Run a relay, which gathers the heartbeats of a rack and passes on all else; slipway relay --help shows its flags.',
  'src/relay/main.ts',
);
