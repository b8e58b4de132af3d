/** `slipway recover`: runs one action on many machines, a canary first, at a capped rate. */
import { randomUUID } from 'node:crypto';
import { Option } from 'commander';
import type { Recovery, RecoveryRequest } from '../../../contract/supervision/recovery.ts';
import {
  type BulkActionName,
  bulkAction,
  bulkActionNames,
  isBulkAction,
  recoverableStatuses,
  recoveryDefaults,
} from '../../../lifecycle/actions/recovery.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { hintLines, type RenderContext, renderContext } from '../../render/text/hints.ts';
import { flow, printable } from '../../render/text/text.ts';
import { CliFailure } from '../../terminal/failure.ts';
import { count, dryRunOption, duration, labels, timeoutWaitOption, waitOption } from '../../terminal/option-values.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';
import { emptySubject } from '../../wait/subject.ts';
import { waitUntilSettled } from '../../wait/wait.ts';

interface Options {
  action?: BulkActionName;
  status?: string;
  pool?: string;
  zone?: string;
  label?: Record<string, string>;
  olderThan?: number;
  reason: string;
  canary: number;
  perMinute: number;
  stopAfter: number;
  dryRun?: boolean;
  wait?: boolean;
  timeoutWait?: number;
}

const defaultActions: Record<string, BulkActionName> = {
  release_failed: 'retry-release',
  failed: 'retry',
  quarantined: 'reactivate',
};

function requireAction({ action, status }: Options): BulkActionName {
  const chosen = action ?? (status === undefined ? undefined : defaultActions[status]);
  if (chosen) return chosen;
  throw new CliFailure('usage', 'A recovery needs an action', {
    remedy: `Name an --action, or a status that has a default one (${Object.keys(defaultActions).join(', ')}).`,
  });
}

const requestOf = (options: Options): RecoveryRequest => ({
  action: requireAction(options),
  filter: {
    ...(options.status !== undefined && { status: options.status }),
    ...(options.pool !== undefined && { pool: options.pool }),
    ...(options.zone !== undefined && { zone: options.zone }),
    ...(options.label && { labels: options.label }),
    ...(options.olderThan !== undefined && { older_than_seconds: options.olderThan }),
  },
  reason: options.reason,
  canary: options.canary,
  per_minute: options.perMinute,
  stop_after_failures: options.stopAfter,
  ...(options.dryRun && { dry_run: true }),
});

const actionHelp = `the action: ${bulkActionNames.map((name) => `${name} ${bulkAction(name).does}`).join('; ')}`;

const effectOf = (action: string) => (isBulkAction(action) ? bulkAction(action).does : action);

/** Renders each reason for skipping, with its count and some ids. */
const skippedLines = ({ not_eligible }: Recovery, { paint, width }: RenderContext): string[] =>
  not_eligible.flatMap(({ why_not, count, first }) => {
    const more = count > first.length ? [`and ${count - first.length} more`] : [];
    return [
      ...flow([`${count} ${count === 1 ? 'is' : 'are'} skipped: ${printable(why_not)}`], width - 2).map(
        (line) => `  ${paint('warn', line)}`,
      ),
      ...flow([...first.map(printable), ...more], width - 4).map((line) => `    ${paint('quiet', line)}`),
    ];
  });

function recoveryLines(recovery: Recovery, request: RecoveryRequest, context: RenderContext): string[] {
  const { paint, width, commandLine } = context;
  const { matched, eligible, first, operation } = recovery;
  if (matched === 0)
    return [`${paint('good', '✔')} ${paint('strong', 'Nothing to recover')}: nothing matches the filter`];
  if (eligible === 0)
    return [
      `${paint('bad', '✖')} ${paint('strong', `Nothing was started`)}: ${request.action} is not available for any of the ${matched} that match`,
      ...skippedLines(recovery, context),
    ];
  const countText = eligible === matched ? String(matched) : `${eligible} of ${matched}`;
  const pace = `canary ${request.canary}, then at most ${request.per_minute} per minute; stops after ${request.stop_after_failures} failures`;
  const more = eligible > first.length ? [`and ${eligible - first.length} more`] : [];
  const ids = flow([...first.map(printable), ...more], width - 2).map((line) => `  ${paint('quiet', line)}`);
  if (!operation)
    return [
      paint('strong', `Would recover ${countText}: ${effectOf(request.action)}; nothing was changed`),
      `  ${pace}`,
      ...ids,
      ...skippedLines(recovery, context),
    ];
  return [
    `${paint('good', '✔')} ${paint('strong', `${operation.workflow_id} recovers ${countText}`)}: ${effectOf(request.action)}`,
    `  ${pace}`,
    ...ids,
    ...skippedLines(recovery, context),
    ...hintLines([['Follow it', commandLine('watch', operation.workflow_id)]], paint),
  ];
}

export const makeRecover: MakeCommand = (cli) =>
  new SlipwayCommand('recover')
    .description(
      'Run one action on many machines: a canary first, then the others at a capped rate. Stops after repeated failures.',
    )
    .addOption(new Option('-s, --status <status>', 'only those in this status').choices(recoverableStatuses))
    .addOption(new Option('--action <action>', actionHelp).choices(bulkActionNames))
    .option('-p, --pool <pool>', 'only those of this pool')
    .option('--zone <zone>', 'only those in this zone')
    .option('-l, --label <key=value>', 'only those with this label; may be repeated', labels)
    .option('--older-than <time>', 'only those in their status for at least this long, like 10m', duration)
    .requiredOption('-r, --reason <text>', 'why; recorded as evidence under your name')
    .addOption(
      new Option('--canary <n>', 'how many go first; the others follow if all of these recover')
        .argParser(count)
        .default(recoveryDefaults.canary),
    )
    .addOption(
      new Option('--per-minute <n>', 'the maximum per minute').argParser(count).default(recoveryDefaults.per_minute),
    )
    .addOption(
      new Option('--stop-after <n>', 'stop after this many failures')
        .argParser(count)
        .default(recoveryDefaults.stop_after_failures),
    )
    .addOption(dryRunOption('only show how many it would touch, the first ids, and which ones it skips and why'))
    .addOption(waitOption())
    .addOption(timeoutWaitOption())
    .examples(
      'slipway recover --status release_failed --dry-run',
      'slipway recover --status release_failed --pool gpu --per-minute 30 --reason "the disk is free again" --wait',
      'slipway recover --action quarantine --zone eu-1 --reason "water in rack 7"',
    )
    .action(
      cli.run<Options>(async (session, options) => {
        const body = requestOf(options);
        const recovery: Recovery = await session.call('fleet-recover', { body, idempotency_key: randomUUID() });
        const { operation } = recovery;
        const { out } = session.terminal;
        const shouldWait = options.wait && operation;
        if (!session.json) printLines(out, recoveryLines(recovery, body, renderContext(session)));
        else if (!shouldWait) printJson(out, recovery);
        // Some things match the filter, but the action is not available for any of them.
        if (!shouldWait) return recovery.matched > 0 && recovery.eligible === 0 ? 'refused' : undefined;
        const { exit, subject } = await waitUntilSettled(session, {
          target: { kind: 'operation', id: operation.workflow_id },
          goal: 'settle',
          known: { ...emptySubject, operation },
          timeout_seconds: options.timeoutWait ?? null,
        });
        if (session.json) printJson(out, { ...recovery, operation: subject.operation });
        return exit;
      }),
    );
