/** `slipway log-level`: shows the log level of the server, or changes it for a while. */
import { randomUUID } from 'node:crypto';
import { Argument } from 'commander';
import type { LogLevel, LogLevelState } from '../../../contract/fleet/server-status.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { formatMoment } from '../../render/text/duration.ts';
import { duration } from '../../terminal/option-values.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

const levels: readonly LogLevel[] = ['debug', 'info', 'warn'];

const levelSentence = ({ level, usual, until }: LogLevelState, nowMs: number): string =>
  until === null
    ? `The log level is ${level}`
    : `The log level is ${level} until ${formatMoment(until, nowMs)}, then ${usual}`;

export const makeLogLevel: MakeCommand = (cli) =>
  new SlipwayCommand('log-level')
    .description('Show the log level of the server, or change it on every replica for a while. It goes back by itself.')
    .addArgument(new Argument('[level]', 'the new level').choices(levels))
    .option('--for <time>', 'how long, up to a day; default 15m', duration)
    .examples('slipway log-level', 'slipway log-level debug --for 10m')
    .action(
      cli.run<{ for?: number }>(async (session, { for: for_seconds }, [level]) => {
        const state = level
          ? await session.call('log-level-set', {
              body: { level: level as LogLevel, ...(for_seconds !== undefined && { for_seconds }) },
              idempotency_key: randomUUID(),
            })
          : (await session.call('server-status', {})).log;
        const { out } = session.terminal;
        if (session.json) printJson(out, state);
        else printLines(out, [levelSentence(state, session.clock.nowMs())]);
        return undefined;
      }),
    );
