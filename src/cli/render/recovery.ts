/** What a recovery is about to do, or would do, in words. */
import type { Recovery, RecoveryRequest } from '../../contract/recovery.ts';
import { bulkAction, isBulkAction } from '../../lifecycle/recovery.ts';
import { hintLines } from './closing.ts';
import type { Paint } from './palette.ts';
import { flow, printable } from './text.ts';

interface Context {
  paint: Paint;
  width: number;
  commandLine(...words: string[]): string;
}

const does = (action: string) => (isBulkAction(action) ? bulkAction(action).does : action);

export function recoveryLines(
  recovery: Recovery,
  asked: RecoveryRequest,
  { paint, width, commandLine }: Context,
): string[] {
  const { matched, first, operation } = recovery;
  if (matched === 0)
    return [`${paint('good', '✔')} ${paint('strong', 'Nothing to recover')}: nothing fits that filter`];
  const pace = `canary ${asked.canary}, then at most ${asked.per_minute} a minute, until ${asked.stop_after_failures} failed`;
  const more = matched > first.length ? [`and ${matched - first.length} more`] : [];
  const whom = flow([...first.map(printable), ...more], width - 2).map((line) => `  ${paint('quiet', line)}`);
  if (!operation)
    return [
      paint('strong', `Would recover ${matched}: ${does(asked.action)}; nothing was changed`),
      `  ${pace}`,
      ...whom,
    ];
  return [
    `${paint('good', '✔')} ${paint('strong', `${operation.workflow_id} recovers ${matched}`)}: ${does(asked.action)}`,
    `  ${pace}`,
    ...whom,
    ...hintLines([['Follow it', commandLine('watch', operation.workflow_id)]], paint),
  ];
}
