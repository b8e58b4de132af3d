/** A program that is looked at and never run: for the reference, the completions and their tests. */
import type { Cli } from './command.ts';
import { plain } from './render/palette.ts';
import type { Surface } from './terminal.ts';

const nowhere: Surface = {
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
