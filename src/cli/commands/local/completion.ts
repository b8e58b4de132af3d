/** `slipway completion`: what a shell needs to complete our commands and flags. */
import { Argument, type Command } from 'commander';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { completionScripts, isShell, shells } from '../../render/local/completion.ts';
import { printLines } from '../../terminal/terminal.ts';

export const makeCompletion: MakeCommand = (cli) =>
  new SlipwayCommand('completion')
    .description('Print a completion script for your shell.')
    .addArgument(new Argument('<shell>', 'your shell').choices(shells))
    .examples(
      'source <(slipway completion bash)',
      'source <(slipway completion zsh)',
      'slipway completion fish > ~/.config/fish/completions/slipway.fish',
    )
    // It asks no server anything, so it opens no session and needs no token.
    .action((shell: string, _options: unknown, command: Command) => {
      const program = command.parent;
      if (program && isShell(shell)) printLines(cli.terminal.out, completionScripts[shell](program));
    });
