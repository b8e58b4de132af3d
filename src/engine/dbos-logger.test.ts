import { DBOSWorkflowConflictError } from '@dbos-inc/dbos-sdk';
import { expect, it } from 'vitest';
import { systemClock } from '../base/clock.ts';
import { dbosLogger } from './dbos-logger.ts';

function logLevels(act: (logger: ReturnType<typeof dbosLogger>) => void): string[] {
  const levels: string[] = [];
  const write = (level: string) => () => void levels.push(level);
  act(dbosLogger({ debug: write('debug'), warn: write('warn'), error: write('error') }, systemClock));
  return levels;
}

it('leaves it to the journal to report that another replica took a run over', () => {
  const conflict = new DBOSWorkflowConflictError('op_1#1');
  expect(logLevels((logger) => logger.error(conflict.message, { error: conflict }))).toEqual(['debug']);
  const failure = new Error('the statement failed');
  expect(logLevels((logger) => logger.error(failure.message, { error: failure }))).toEqual(['error']);
});

it('logs a repeated warning only once within ten seconds', () => {
  expect(
    logLevels((logger) => {
      for (let attempt = 1; attempt <= 3; attempt++) logger.warn(`Retrying (attempt ${attempt})`);
    }),
  ).toEqual(['warn']);
});
