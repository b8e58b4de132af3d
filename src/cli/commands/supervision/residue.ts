/** `slipway residue`: lists, verifies, adopts and deletes resources without a live owner. */
import { randomUUID } from 'node:crypto';
import { Option } from 'commander';
import type { Residue } from '../../../contract/supervision/residue.ts';
import { type ResidueStatus, residueStatuses } from '../../../lifecycle/findings/residue.ts';
import { type Cli, type MakeCommand, SlipwayCommand } from '../../command.ts';
import { collect } from '../../connection/pages.ts';
import { formatAgeSince } from '../../render/text/duration.ts';
import { hintLines } from '../../render/text/hints.ts';
import type { Column } from '../../render/text/table.ts';
import { printable } from '../../render/text/text.ts';
import { dryRunOption, limitOption } from '../../terminal/option-values.ts';
import { countByStatus, printListing } from '../../terminal/print-listing.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

const costText = ({ cost_per_hour }: Residue) => (cost_per_hour === null ? '' : `${cost_per_hour}/h`);

const detailText = ({ status, seen, settled_reason, settled_by, reason }: Residue) =>
  printable(
    status === 'open'
      ? (seen ?? reason)
      : [settled_reason ?? seen, settled_by && `by ${settled_by.name}`].filter(Boolean).join(', '),
  );

const residueColumns = (nowMs: number): Column<Residue>[] => [
  { title: 'RESIDUE', value: (row) => row.residue_id },
  { title: 'STATUS', value: (row) => row.status, tone: (row) => (row.status === 'open' ? 'warn' : 'quiet') },
  { title: 'WHY', value: (row) => row.why },
  { title: 'WHAT', value: (row) => printable(`${row.kind} ${row.resource}`), shrinks_to: 16 },
  { title: 'POOL', value: (row) => row.pool ?? '', drop: 6, optional: true },
  { title: 'HOST', value: (row) => printable(row.host ?? ''), drop: 8, optional: true },
  { title: 'COST', value: costText, align: 'right', optional: true },
  { title: 'AGE', value: (row) => formatAgeSince(row.since, nowMs), align: 'right' },
  { title: 'CHECKED', value: (row) => formatAgeSince(row.verified_at, nowMs), align: 'right', drop: 7, optional: true },
  { title: 'DETAIL', value: detailText, drop: 5, below: true },
];

interface ListOptions {
  status?: ResidueStatus;
  pool?: string;
  all?: boolean;
  limit: number;
}

const makeList = (cli: Cli) =>
  new SlipwayCommand('residue list')
    .description('List residue, newest first; without --all, only open entries.')
    .addOption(new Option('-s, --status <status>', 'only those in this status').choices(residueStatuses))
    .option('-p, --pool <pool>', 'only those of this pool')
    .option('-a, --all', 'include entries that are gone or adopted')
    .addOption(limitOption(50))
    .action(
      cli.run<ListOptions>(async (session, { status, pool, all, limit }) => {
        const statusFilter = status ?? (all ? undefined : 'open');
        const query = { ...(statusFilter && { status: statusFilter }), ...(pool && { pool }) };
        const listing = await collect<Residue>(
          (paging) => session.call('residue-list', { query: { ...query, ...paging } }),
          limit,
        );
        printListing(session, listing, {
          columns: residueColumns(session.clock.nowMs()),
          has_limit: true,
          empty: pool || status ? 'No entry matches.' : `There is no ${all ? '' : 'open '}residue.`,
          summary: (rows) => countByStatus('entry', rows, 'entries'),
        });
        return undefined;
      }),
    );

interface ResidueAction {
  description: string;
  result: string;
  example: string;
}

const residueActions = {
  verify: {
    description: 'Check now whether the resource still exists.',
    result: 'is being checked',
    example: 'slipway residue verify res_… --reason "the mount was repaired"',
  },
  adopt: {
    description: 'Take the resource over under your name. It no longer counts as residue.',
    result: 'is yours now',
    example: 'slipway residue adopt res_… --reason "kept for the investigation"',
  },
  delete: {
    description: 'Delete the resource if it has our tags, and prove that it is gone.',
    result: 'is being deleted',
    example: 'slipway residue delete res_… --reason "no longer needed"',
  },
} as const satisfies Record<string, ResidueAction>;

const makeAction = (cli: Cli, name: keyof typeof residueActions) => {
  const { description, result, example } = residueActions[name];
  return new SlipwayCommand(`residue ${name}`)
    .description(description)
    .argument('<id>', 'the entry, from slipway residue')
    .requiredOption('-r, --reason <text>', 'why; recorded as evidence under your name')
    .addOption(dryRunOption('only show the effect'))
    .examples(example)
    .action(
      cli.run<{ reason: string; dryRun?: boolean }>(async (session, { reason, dryRun }, [id = '']) => {
        const reply = await session.call(`residue-${name}`, {
          params: { id },
          body: { reason, ...(dryRun && { dry_run: true }) },
          idempotency_key: randomUUID(),
        });
        const { out } = session.terminal;
        if (session.json) {
          printJson(out, reply);
          return undefined;
        }
        const { residue, operation, dry_run, predicts } = reply;
        const effect = printable(predicts.says);
        if (dry_run) {
          printLines(out, [
            `${out.paint('warn', '○')} ${out.paint('strong', 'Dry run: nothing was done.')} ${name} ${residue.residue_id} would mean: ${effect}`,
          ]);
          return undefined;
        }
        printLines(out, [
          `${out.paint('good', '✔')} ${out.paint('strong', `${residue.kind} ${residue.resource} ${result}`)}`,
          ...(operation
            ? hintLines([['Follow it', session.commandLine('watch', operation.workflow_id)]], out.paint)
            : []),
        ]);
        return undefined;
      }),
    );
};

export const makeResidue: MakeCommand = (cli) =>
  new SlipwayCommand('residue')
    .description('Show resources that forced releases left behind or that have no owner; verify, adopt or delete them.')
    .addCommand(makeList(cli), { isDefault: true })
    .addCommand(makeAction(cli, 'verify'))
    .addCommand(makeAction(cli, 'adopt'))
    .addCommand(makeAction(cli, 'delete'));
