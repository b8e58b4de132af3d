/** A Cli that prints nothing, to read the declared commands without running one. */
import type { Cli } from '../command.ts';
import { plain } from '../render/text/palette.ts';
import type { TerminalOutput } from '../terminal/terminal.ts';

const nowhere: TerminalOutput = {
  write() {},
  columns: () => Number.POSITIVE_INFINITY,
  rows: () => Number.POSITIVE_INFINITY,
  interactive: false,
  paint: plain,
  onResize: () => () => {},
};

export const silentCli: Cli = {
  terminal: { out: nowhere, err: nowhere },
  run: () => async () => {},
};
