/** What a recovery is about to do, or would do, in words. */
import type { Recovery, RecoveryRequest } from '../../../contract/supervision/recovery.ts';
import { bulkAction, isBulkAction } from '../../../lifecycle/actions/recovery.ts';
import type { Paint } from '../text/palette.ts';
import { flow, printable } from '../text/text.ts';
import { hintLines } from './outcome.ts';

interface Context {
  paint: Paint;
  width: number;
  commandLine(...words: string[]): string;
}

const does = (action: string) => (isBulkAction(action) ? bulkAction(action).does : action);

/** Each reason with how many it concerns, and some of them by name. */
const passedOver = ({ not_eligible }: Recovery, { paint, width }: Context): string[] =>
  not_eligible.flatMap(({ why_not, count, first }) => {
    const more = count > first.length ? [`and ${count - first.length} more`] : [];
    return [
      ...flow([`${count} ${count === 1 ? 'is' : 'are'} passed over: ${printable(why_not)}`], width - 2).map(
        (line) => `  ${paint('warn', line)}`,
      ),
      ...flow([...first.map(printable), ...more], width - 4).map((line) => `    ${paint('quiet', line)}`),
    ];
  });

export function recoveryLines(recovery: Recovery, asked: RecoveryRequest, context: Context): string[] {
  const { paint, width, commandLine } = context;
  const { matched, eligible, first, operation } = recovery;
  if (matched === 0)
    return [`${paint('good', '✔')} ${paint('strong', 'Nothing to recover')}: nothing fits that filter`];
  if (eligible === 0)
    return [
      `${paint('bad', '✖')} ${paint('strong', `Nothing was started`)}: ${asked.action} is open to none of the ${matched} that fit`,
      ...passedOver(recovery, context),
    ];
  const howMany = eligible === matched ? String(matched) : `${eligible} of ${matched}`;
  const pace = `canary ${asked.canary}, then at most ${asked.per_minute} a minute, until ${asked.stop_after_failures} failed`;
  const more = eligible > first.length ? [`and ${eligible - first.length} more`] : [];
  const whom = flow([...first.map(printable), ...more], width - 2).map((line) => `  ${paint('quiet', line)}`);
  if (!operation)
    return [
      paint('strong', `Would recover ${howMany}: ${does(asked.action)}; nothing was changed`),
      `  ${pace}`,
      ...whom,
      ...passedOver(recovery, context),
    ];
  return [
    `${paint('good', '✔')} ${paint('strong', `${operation.workflow_id} recovers ${howMany}`)}: ${does(asked.action)}`,
    `  ${pace}`,
    ...whom,
    ...passedOver(recovery, context),
    ...hintLines([['Follow it', commandLine('watch', operation.workflow_id)]], paint),
  ];
}
