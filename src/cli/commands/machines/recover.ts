/** `slipway recover`: does one thing to many, canary first, at a capped rate, and stops when it fails. */
import { randomUUID } from 'node:crypto';
import { Option } from 'commander';
import type { Recovery, RecoveryRequest } from '../../../contract/supervision/recovery.ts';
import {
  type BulkActionName,
  bulkAction,
  bulkActionNames,
  recoverableStatuses,
  recoveryDefaults,
} from '../../../lifecycle/actions/recovery.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { recoveryLines } from '../../render/allocations/recovery.ts';
import { CliFailure } from '../../terminal/failure.ts';
import { count, dryRunOption, duration, labels, timeoutWaitOption, waitOption } from '../../terminal/option-values.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';
import { nothingKnown } from '../../wait/subject.ts';
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

/** What one does about a status, unless told otherwise. */
const usualActions: Record<string, BulkActionName> = {
  release_failed: 'retry-release',
  failed: 'retry',
  quarantined: 'reactivate',
};

function actionOf({ action, status }: Options): BulkActionName {
  const usual = status === undefined ? undefined : usualActions[status];
  if (action ?? usual) return (action ?? usual) as BulkActionName;
  throw new CliFailure('usage', 'A recovery must say what to do', {
    remedy: `Name a status that has a usual way back (${Object.keys(usualActions).join(', ')}), or an --action.`,
  });
}

const requestOf = (options: Options): RecoveryRequest => ({
  action: actionOf(options),
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

const actionHelp = `what to do: ${bulkActionNames.map((name) => `${name} ${bulkAction(name).does}`).join('; ')}`;

export const makeRecover: MakeCommand = (cli) =>
  new SlipwayCommand('recover')
    .description('Do one thing to many: the canary first, the rest at a capped rate; it stops when it fails.')
    .addOption(new Option('-s, --status <status>', 'what stands there').choices(recoverableStatuses))
    .addOption(new Option('--action <action>', actionHelp).choices(bulkActionNames))
    .option('-p, --pool <pool>', 'of this pool')
    .option('--zone <zone>', 'in this zone')
    .option('-l, --label <key=value>', 'with this label; may be given several times', labels)
    .option('--older-than <time>', 'only what has stood there for so long, like 10m', duration)
    .requiredOption('-r, --reason <text>', 'why; kept as evidence under your name')
    .addOption(
      new Option('--canary <n>', 'how many go first; the rest follows if all of them recovered')
        .argParser(count)
        .default(recoveryDefaults.canary),
    )
    .addOption(
      new Option('--per-minute <n>', 'how many at most in a minute')
        .argParser(count)
        .default(recoveryDefaults.per_minute),
    )
    .addOption(
      new Option('--stop-after <n>', 'after how many failures the rest is left untouched')
        .argParser(count)
        .default(recoveryDefaults.stop_after_failures),
    )
    .addOption(dryRunOption('only say how many it would touch, which first, and which not and why'))
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
        const isFollowed = options.wait && operation;
        if (!session.json)
          printLines(out, recoveryLines(recovery, body, { ...fitOf(out), commandLine: session.commandLine }));
        else if (!isFollowed) printJson(out, recovery);
        // Asked for something, and nothing of it was begun.
        if (!isFollowed) return recovery.matched > 0 && recovery.eligible === 0 ? 'refused' : undefined;
        const { exit, subject } = await waitUntilSettled(session, {
          target: { kind: 'operation', id: operation.workflow_id },
          goal: 'settle',
          known: { ...nothingKnown, operation },
          timeout_seconds: options.timeoutWait ?? null,
        });
        if (session.json) printJson(out, { ...recovery, operation: subject.operation });
        return exit;
      }),
    );
