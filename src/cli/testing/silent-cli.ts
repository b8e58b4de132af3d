/** A program that is looked at and never run: the reference page and the completions are made from it. */
import type { Cli } from '../command.ts';
import { plain } from '../render/text/palette.ts';
import type { Surface } from '../terminal/terminal.ts';

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
