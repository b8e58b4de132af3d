/** `slipway residue`: what is left upstream without a live owner, and what can be done about it. */
import { randomUUID } from 'node:crypto';
import { Option } from 'commander';
import type { Residue } from '../../../contract/supervision/residue.ts';
import { type ResidueStatus, residueStatuses } from '../../../lifecycle/findings/residue.ts';
import { type Cli, type MakeCommand, SlipwayCommand } from '../../command.ts';
import { collect } from '../../connection/pages.ts';
import { hintLines } from '../../render/allocations/outcome.ts';
import { residueColumns } from '../../render/supervision/residue.ts';
import { printable } from '../../render/text/text.ts';
import { dryRunOption, limitOption } from '../../terminal/option-values.ts';
import { countByStatus, printListing } from '../../terminal/print-listing.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

interface ListOptions {
  status?: ResidueStatus;
  pool?: string;
  all?: boolean;
  limit: number;
}

const makeList = (cli: Cli) =>
  new SlipwayCommand('residue list')
    .description('List what is left upstream without a live owner, newest first; without --all, what is still open.')
    .addOption(new Option('-s, --status <status>', 'only those in this status').choices(residueStatuses))
    .option('-p, --pool <pool>', 'only those of this pool')
    .option('-a, --all', 'also what is gone or was taken over')
    .addOption(limitOption(50))
    .action(
      cli.run<ListOptions>(async (session, { status, pool, all, limit }) => {
        const wanted = status ?? (all ? undefined : 'open');
        const query = { ...(wanted && { status: wanted }), ...(pool && { pool }) };
        const listing = await collect<Residue>(
          (paging) => session.call('residue-list', { query: { ...query, ...paging } }),
          limit,
        );
        printListing(session, listing, {
          columns: residueColumns(session.clock.nowMs()),
          empty: 'Nothing is left behind.',
          summary: (rows) => countByStatus('entry', rows),
        });
        return undefined;
      }),
    );

interface Deed {
  does: string;
  done: string;
  example: string;
}

const deeds = {
  verify: {
    does: 'Look now whether it is still there.',
    done: 'is being looked at',
    example: 'slipway residue verify res_… --reason "the mount was repaired"',
  },
  adopt: {
    does: 'Take it over under your name; from then on it is yours, and nobody counts it as left behind.',
    done: 'is yours now',
    example: 'slipway residue adopt res_… --reason "kept for the investigation"',
  },
  delete: {
    does: 'Destroy what carries our tags, and prove it gone.',
    done: 'is being destroyed',
    example: 'slipway residue delete res_… --reason "nobody misses it"',
  },
} as const satisfies Record<string, Deed>;

const makeDeed = (cli: Cli, name: keyof typeof deeds) => {
  const { does, done, example } = deeds[name];
  return new SlipwayCommand(`residue ${name}`)
    .description(does)
    .argument('<id>', 'the entry, from slipway residue')
    .requiredOption('-r, --reason <text>', 'why; kept as evidence under your name')
    .addOption(dryRunOption('only say what would come of it'))
    .examples(example)
    .action(
      cli.run<{ reason: string; dryRun?: boolean }>(async (session, { reason, dryRun }, [id = '']) => {
        const acted = await session.call(`residue-${name}`, {
          params: { id },
          body: { reason, ...(dryRun && { dry_run: true }) },
          idempotency_key: randomUUID(),
        });
        const { out } = session.terminal;
        if (session.json) {
          printJson(out, acted);
          return undefined;
        }
        const { residue, operation, dry_run, predicts } = acted;
        const says = printable(predicts.says);
        if (dry_run) {
          printLines(out, [
            `${out.paint('warn', '○')} ${out.paint('strong', 'Nothing was done.')} To ${name} ${residue.residue_id} would mean: ${says}`,
          ]);
          return undefined;
        }
        printLines(out, [
          `${out.paint('good', '✔')} ${out.paint('strong', `${residue.kind} ${residue.resource} ${done}`)}`,
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
    .description('See what is left upstream without a live owner; verify, adopt or delete it.')
    .addCommand(makeList(cli), { isDefault: true })
    .addCommand(makeDeed(cli, 'verify'))
    .addCommand(makeDeed(cli, 'adopt'))
    .addCommand(makeDeed(cli, 'delete'));
