/** `slipway drift`: lists findings with our record and what was found; repairs or accepts them. */
import { randomUUID } from 'node:crypto';
import { Option } from 'commander';
import { findingKinds, findingStatuses } from '../../../lifecycle/findings/findings.ts';
import { type Cli, type MakeCommand, SlipwayCommand } from '../../command.ts';
import { collect } from '../../connection/pages.ts';
import { decidedLines, findingColumns } from '../../render/supervision/finding.ts';
import { dryRunOption, limitOption } from '../../terminal/option-values.ts';
import { countByStatus, printListing } from '../../terminal/print-listing.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';

interface ListOptions {
  pool?: string;
  kind?: (typeof findingKinds)[number];
  status?: (typeof findingStatuses)[number];
  limit: number;
}

function emptyText({ pool, kind, status }: Omit<ListOptions, 'limit'>): string {
  if (pool || kind) return 'No finding matches.';
  return status ? `No finding is ${status}.` : 'No open findings: our records match the machines.';
}

const makeList = (cli: Cli) =>
  new SlipwayCommand('drift list')
    .description('List findings, newest first: our record, and what was found. Without --status, only open findings.')
    .option('-p, --pool <pool>', 'only those of this pool')
    .addOption(new Option('-k, --kind <kind>', 'only those of this kind').choices([...findingKinds]))
    .addOption(new Option('-s, --status <status>', 'only those in this status').choices([...findingStatuses]))
    .addOption(limitOption(100))
    .action(
      cli.run<ListOptions>(async (session, { pool, kind, status, limit }) => {
        const query = { ...(pool && { pool }), ...(kind && { kind }), ...(status && { status }) };
        const findings = await collect(
          (paging) => session.call('drift-list', { query: { ...query, ...paging } }),
          limit,
        );
        printListing(session, findings, {
          columns: findingColumns(session.clock.nowMs()),
          has_limit: true,
          empty: emptyText({ pool, kind, status }),
          summary: (rows) => countByStatus('finding', rows),
        });
        return undefined;
      }),
    );

interface DecideOptions {
  reason: string;
  dryRun?: boolean;
}

const makeDecision = (cli: Cli, verb: 'repair' | 'accept', description: string, example: string) =>
  new SlipwayCommand(`drift ${verb}`)
    .description(description)
    .argument('<id>', 'the finding')
    .requiredOption('-r, --reason <text>', 'why; recorded as evidence under your name')
    .addOption(dryRunOption('only show the effect'))
    .examples(example)
    .action(
      cli.run<DecideOptions>(async (session, { reason, dryRun }, [id = '']) => {
        const decision = await session.call(`drift-${verb}`, {
          params: { id },
          body: { reason, ...(dryRun && { dry_run: true }) },
          idempotency_key: randomUUID(),
        });
        const { out } = session.terminal;
        if (session.json) printJson(out, decision);
        else printLines(out, decidedLines(verb, decision, fitOf(out)));
        return undefined;
      }),
    );

export const makeDrift: MakeCommand = (cli) =>
  new SlipwayCommand('drift')
    .description(
      'Show where our records and the machines disagree, what fails repeatedly, and boots that became slower.',
    )
    .addCommand(makeList(cli), { isDefault: true })
    .addCommand(
      makeDecision(
        cli,
        'repair',
        'Retire the node of a missing machine with proof, or restore a row from its evidence.',
        'slipway drift repair find_… --dry-run',
      ),
    )
    .addCommand(
      makeDecision(
        cli,
        'accept',
        'Acknowledge a finding; for a row, keep it as it is.',
        'slipway drift accept find_… --reason "moved by hand, see the change log"',
      ),
    );
